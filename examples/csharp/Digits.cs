// Names a hand-written digit with a compiled model: Digits PICTURE.npy
//
//   tessera compile examples/digits/digits.onnx --batch 1 -o out
//   mcs -unsafe examples/csharp/Digits.cs -out:out/Digits.exe          (or as a project of dotnet, with AllowUnsafeBlocks)
//   LD_LIBRARY_PATH=out mono out/Digits.exe examples/digits/digit.npy
using System;
using System.Globalization;
using System.IO;
using System.Runtime.InteropServices;

// Returned by value, and therefore without a string, which .NET would have to marshal.
[StructLayout(LayoutKind.Sequential)]
unsafe struct Status
{
    public int Code;
    public fixed byte Message[508];
}

// As in digits.h: a program of its own needs no more of it than it calls.
static class Native
{
    [DllImport("digits", EntryPoint = "digits_open")]
    public static extern Status Open(IntPtr options, out IntPtr context);

    [DllImport("digits", EntryPoint = "digits_run")]
    public static extern Status Run(IntPtr context, IntPtr[] inputs, IntPtr[] outputs, IntPtr memory);

    [DllImport("digits", EntryPoint = "digits_close")]
    public static extern void Close(IntPtr context);

    public static unsafe void Check(Status status)
    {
        if (status.Code != 0) throw new InvalidOperationException(Marshal.PtrToStringAnsi((IntPtr)status.Message));
    }
}

sealed class Model : IDisposable
{
    IntPtr context;

    public Model()
    {
        Native.Check(Native.Open(IntPtr.Zero, out context)); // no options: one thread per core
    }

    // A context runs once at a time.
    public float[] Probabilities(byte[] picture)
    {
        var found = new float[10];
        GCHandle from = GCHandle.Alloc(picture, GCHandleType.Pinned), to = GCHandle.Alloc(found, GCHandleType.Pinned);
        try
        {
            Native.Check(Native.Run(context, new[] { from.AddrOfPinnedObject() }, new[] { to.AddrOfPinnedObject() }, IntPtr.Zero));
        }
        finally
        {
            from.Free();
            to.Free();
        }
        return found;
    }

    public void Dispose()
    {
        Native.Close(context);
        context = IntPtr.Zero;
    }
}

static class Program
{
    static int Main(string[] args)
    {
        byte[] file = args.Length == 1 ? File.ReadAllBytes(args[0]) : new byte[0];
        if (file.Length < 64)
        {
            Console.Error.WriteLine("usage: Digits PICTURE.npy");
            return 2;
        }
        var picture = new byte[64];
        Array.Copy(file, file.Length - 64, picture, 0, 64); // the ink is the end of the file
        using (var model = new Model())
        {
            float[] found = model.Probabilities(picture);
            int best = Array.IndexOf(found, Max(found));
            Console.WriteLine(string.Format(CultureInfo.InvariantCulture, "{0} with probability {1:F3}", best, found[best]));
        }
        return 0;
    }

    static float Max(float[] values)
    {
        float most = values[0];
        foreach (float value in values) most = Math.Max(most, value);
        return most;
    }
}
