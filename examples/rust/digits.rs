//! Names a hand-written digit with a compiled model: digits PICTURE.npy
//!
//!     tessera compile examples/digits/digits.onnx --batch 1 -o out
//!     rustc examples/rust/digits.rs -L out -C link-arg=-Wl,-rpath,out -o digits_rust
//!     ./digits_rust examples/digits/digit.npy
use std::convert::TryFrom;
use std::ffi::CStr;
use std::os::raw::{c_char, c_void};
use std::ptr::{null, null_mut};

#[repr(C)]
struct Status {
    code: i32,
    message: [c_char; 508],
}

// As in digits.h: a program of its own needs no more of it than it calls.
#[link(name = "digits")]
extern "C" {
    fn digits_open(options: *const c_void, context: *mut *mut c_void) -> Status;
    fn digits_run(context: *mut c_void, inputs: *const *const c_void, outputs: *const *mut c_void, memory: *mut c_void) -> Status;
    fn digits_close(context: *mut c_void);
}

fn check(status: Status) -> Result<(), String> {
    if status.code == 0 {
        return Ok(());
    }
    // Ends in a zero: the model wrote it.
    Err(unsafe { CStr::from_ptr(status.message.as_ptr()) }.to_string_lossy().into_owned())
}

struct Model(*mut c_void);

impl Model {
    fn open() -> Result<Model, String> {
        let mut context = null_mut();
        check(unsafe { digits_open(null(), &mut context) })?; // no options: one thread per core
        Ok(Model(context))
    }

    // A context runs once at a time, hence `&mut`.
    fn probabilities(&mut self, picture: &[u8; 64]) -> Result<[f32; 10], String> {
        let mut out = [0f32; 10];
        let inputs = [picture.as_ptr() as *const c_void];
        let outputs = [out.as_mut_ptr() as *mut c_void];
        check(unsafe { digits_run(self.0, inputs.as_ptr(), outputs.as_ptr(), null_mut()) })?;
        Ok(out)
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        unsafe { digits_close(self.0) }
    }
}

fn run() -> Result<(), String> {
    let path = std::env::args().nth(1).ok_or("usage: digits PICTURE.npy")?;
    let file = std::fs::read(&path).map_err(|e| format!("{path}: {e}"))?;
    // 64 bytes of ink are the end of the file.
    let start = file.len().checked_sub(64).ok_or(format!("{path}: no picture"))?;
    let picture = <&[u8; 64]>::try_from(&file[start..]).unwrap();
    let found = Model::open()?.probabilities(picture)?;
    let best = (0..10).max_by(|&a, &b| found[a].total_cmp(&found[b])).unwrap();
    println!("{best} with probability {:.3}", found[best]);
    Ok(())
}

fn main() {
    if let Err(message) = run() {
        eprintln!("digits: {message}");
        std::process::exit(1);
    }
}
