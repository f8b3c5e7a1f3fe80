//go:build generate

// This program writes the Go code for urlfrontier.proto: protocompile reads the file, and the two generators, which
// go.mod pins as tools, get what protoc would give them.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/protoutil"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/pluginpb"
)

const (
	file       = "urlfrontier.proto"
	parameters = "paths=source_relative,M" + file +
		"=github.com/mapwright/mapwright/internal/urlfrontier/urlfrontierpb"
)

func main() {
	for _, plugin := range []string{"protoc-gen-go", "protoc-gen-go-grpc"} {
		if err := generate(plugin); err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", plugin, err)
			os.Exit(1)
		}
	}
}

func generate(plugin string) error {
	compiler := protocompile.Compiler{Resolver: &protocompile.SourceResolver{},
		SourceInfoMode: protocompile.SourceInfoStandard}
	files, err := compiler.Compile(context.Background(), file)
	if err != nil {
		return err
	}
	input, err := proto.Marshal(&pluginpb.CodeGeneratorRequest{
		FileToGenerate: []string{file},
		Parameter:      proto.String(parameters),
		ProtoFile:      []*descriptorpb.FileDescriptorProto{protoutil.ProtoFromFileDescriptor(files[0])},
	})
	if err != nil {
		return err
	}
	cmd := exec.Command("go", "tool", plugin)
	cmd.Stdin, cmd.Stderr = bytes.NewReader(input), os.Stderr
	output, err := cmd.Output()
	if err != nil {
		return err
	}
	var answer pluginpb.CodeGeneratorResponse
	if err := proto.Unmarshal(output, &answer); err != nil {
		return err
	}
	if answer.Error != nil {
		return fmt.Errorf("%s", answer.GetError())
	}
	for _, f := range answer.File {
		if err := os.WriteFile(f.GetName(), []byte(f.GetContent()), 0o644); err != nil {
			return err
		}
	}
	return nil
}
