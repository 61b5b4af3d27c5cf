// Names a hand-written digit with a compiled model: digits PICTURE.npy
//
//	tessera compile examples/digits/digits.onnx --batch 1 -o out
//	CGO_CFLAGS=-I$PWD/out CGO_LDFLAGS="-L$PWD/out -ldigits -Wl,-rpath,$PWD/out" go build -o digits_go examples/go/digits.go
//	./digits_go examples/digits/digit.npy
package main

// #include "digits.h"
//
// // C may read Go's memory during a call, but not a table of its addresses.
// static tsr_status run_digits(tsr_context* context, const void* picture, void* probabilities) {
//   const void* inputs[] = {picture};
//   void* outputs[] = {probabilities};
//   return digits_run(context, inputs, outputs, NULL);
// }
import "C"

import (
	"errors"
	"fmt"
	"os"
	"unsafe"
)

func check(status C.tsr_status) error {
	if status.code == C.TSR_OK {
		return nil
	}
	return errors.New(C.GoString(&status.message[0]))
}

// Probabilities of the ten digits for a picture of 8 by 8 bytes of ink.
func probabilities(context *C.tsr_context, picture []byte) ([10]float32, error) {
	var out [10]float32
	err := check(C.run_digits(context, unsafe.Pointer(&picture[0]), unsafe.Pointer(&out)))
	return out, err
}

func run() error {
	if len(os.Args) != 2 {
		return errors.New("usage: digits PICTURE.npy")
	}
	file, err := os.ReadFile(os.Args[1])
	if err != nil {
		return err
	}
	if len(file) < 64 {
		return fmt.Errorf("%s: no picture", os.Args[1])
	}
	var context *C.tsr_context
	if err := check(C.digits_open(nil, &context)); err != nil { // no options: one thread per core
		return err
	}
	defer C.digits_close(context)
	found, err := probabilities(context, file[len(file)-64:]) // the ink is the end of the file
	if err != nil {
		return err
	}
	best := 0
	for digit, probability := range found {
		if probability > found[best] {
			best = digit
		}
	}
	fmt.Printf("%d with probability %.3f\n", best, found[best])
	return nil
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "digits:", err)
		os.Exit(1)
	}
}
