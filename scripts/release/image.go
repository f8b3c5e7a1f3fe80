package main

import "errors"

func writeImage(string, []target) error { return errors.New("not yet") }
