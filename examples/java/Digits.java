import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.nio.FloatBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;

/**
 * Names a hand-written digit with a compiled model: Digits PICTURE.npy. digits_jni.c calls the model; this way serves every
 * Java since 9.
 *
 * <pre>
 * tessera compile examples/digits/digits.onnx --batch 1 -o out
 * javac -h out -d out examples/java/Digits.java
 * cc -shared -fPIC -Iout -I"$JAVA_HOME/include" -I"$JAVA_HOME/include/linux" examples/java/digits_jni.c out/libdigits.so \
 *   -Wl,-rpath,'$ORIGIN' -o out/libdigits_jni.so
 * java -Djava.library.path=out -cp out Digits examples/digits/digit.npy
 * </pre>
 */
public final class Digits implements AutoCloseable {
  static {
    System.loadLibrary("digits_jni");
  }

  private static native long open();

  private static native void run(long context, ByteBuffer picture, FloatBuffer probabilities);

  private static native void close(long context);

  private long context = open();
  private final ByteBuffer picture = ByteBuffer.allocateDirect(64);
  private final FloatBuffer out =
      ByteBuffer.allocateDirect(4 * 10).order(ByteOrder.nativeOrder()).asFloatBuffer();

  /** A context runs once at a time. */
  public synchronized float[] probabilities(byte[] ink) {
    if (context == 0) throw new IllegalStateException("the model is closed");
    if (ink.length != 64) throw new IllegalArgumentException("a picture has 64 bytes, not " + ink.length);
    picture.clear().put(ink);
    run(context, picture, out);
    float[] copy = new float[10];
    out.clear().get(copy);
    return copy;
  }

  @Override
  public synchronized void close() {
    if (context != 0) close(context);
    context = 0;
  }

  public static void main(String[] args) throws Exception {
    if (args.length != 1) {
      System.err.println("usage: Digits PICTURE.npy");
      System.exit(2);
    }
    byte[] file = Files.readAllBytes(Path.of(args[0]));
    // The ink is the end of the file.
    byte[] ink = java.util.Arrays.copyOfRange(file, Math.max(0, file.length - 64), file.length);
    try (Digits model = new Digits()) {
      float[] found = model.probabilities(ink);
      int best = 0;
      for (int i = 1; i < found.length; ++i) {
        if (found[i] > found[best]) best = i;
      }
      System.out.printf(Locale.ROOT, "%d with probability %.3f%n", best, found[best]);
    }
  }
}
