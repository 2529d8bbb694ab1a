// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// A cache of compiled C files, which all builds of the machine share. Put it before the compiler, as in
// CC="example-cc-cache gcc":
//
//   example-cc-cache gcc -O2 -c hello.c -o hello.o
//   example-cc-cache --statistics
//
// This command compiles files with four processes at a time, several times, and checks each result:
//
//   swift run --package-path scripts/examples --scratch-path .build-examples example-cc-cache gcc
//
// The store is the directory LARDER_CC_CACHE, by default ~/.cache/larder-examples/cc.

import Foundation

do {
  let arguments = Array(CommandLine.arguments.dropFirst())
  let path =
    ProcessInfo.processInfo.environment["LARDER_CC_CACHE"] ?? "~/.cache/larder-examples/cc"
  switch (arguments.first, arguments.count) {
  case ("--statistics", _):
    let (hits, misses) = try CompilerCache(at: path).counts()
    print("\(hits) hits, \(misses) misses")
  case (let compiler, 0...1):
    exit(try await Demonstration(compiler: compiler ?? "cc").run() ? 0 : 1)
  default:
    exit(try await compile(arguments, storeAt: path))
  }
} catch {
  FileHandle.standardError.write(Data("example-cc-cache: \(error)\n".utf8))
  exit(1)
}

/// Compiles with the cache, or without it if the cache cannot be used: it never makes a build fail.
func compile(_ arguments: [String], storeAt path: String) async throws -> Int32 {
  let command = try Command(arguments)
  guard let call = CompilerCall(command), let key = try call.key() else {
    return try command.run()
  }
  let result: Compilation
  do {
    result = try await CompilerCache(at: path).compilation(key) { try call.compile() }
  } catch let error as CompilerFailed {
    result = error.result
  } catch {
    FileHandle.standardError.write(Data("example-cc-cache: \(error)\n".utf8))
    return try command.run()
  }
  FileHandle.standardError.write(result.diagnostics)
  // Under another name first: a build that is interrupted leaves no partial file.
  if result.status == 0 {
    try result.object.write(to: URL(fileURLWithPath: call.output), options: .atomic)
  }
  return result.status
}
