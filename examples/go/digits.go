// Names a hand-written digit with a compiled model: digits PICTURE.npy
//
//	tessera compile examples/digits/digits.onnx --batch 1 -o out
//	CGO_CFLAGS=-I$PWD/out CGO_LDFLAGS="-L$PWD/out -ldigits -Wl,-rpath,$PWD/out" go build -o digits_go examples/go/digits.go
//	./digits_go examples/digits/digit.npy
package main

// #include "digits.h"
import "C"

import (
	"errors"
	"fmt"
	"os"
	"runtime"
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
	var pinned runtime.Pinner // Go's memory, which C reads through a table of addresses
	defer pinned.Unpin()
	pinned.Pin(&picture[0])
	pinned.Pin(&out)
	inputs := [1]unsafe.Pointer{unsafe.Pointer(&picture[0])}
	outputs := [1]unsafe.Pointer{unsafe.Pointer(&out)}
	return out, check(C.digits_run(context, &inputs[0], &outputs[0], nil))
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
