// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderTesting
import Testing

#if canImport(Darwin)
  import Darwin
#else
  import Glibc
#endif

@Suite(.timeLimit(.minutes(10)))
struct TemporaryDirectoryTests {
  @Test func `A directory is fresh and private`() throws {
    let first = try TemporaryDirectory()
    let second = try TemporaryDirectory()
    #expect(first.path != second.path)
    #expect(try Files.mode(first.path) == 0o700)
    #expect(Files.names(in: first.path) == [])
  }

  @Test func `Everything in it goes with it, links without what they point to`() throws {
    let kept = try TemporaryDirectory()
    try Files.write([1, 2, 3], to: kept.appending("file"))
    var directory: TemporaryDirectory? = try TemporaryDirectory()
    let path = try #require(directory).path
    try Files.makeDirectory("\(path)/a")
    try Files.makeDirectory("\(path)/a/b")
    try Files.write([4], to: "\(path)/a/b/file")
    try Files.makeSymbolicLink("\(path)/a/link", to: kept.path)
    try Files.setMode(0, of: "\(path)/a")
    directory = nil
    #expect(!Files.exists(path))
    #expect(try Files.contents(of: kept.appending("file")) == [1, 2, 3])
  }

  @Test func `The scoped form removes it also when the body throws`() throws {
    struct Failure: Error {}
    var seen = ""
    #expect(throws: Failure.self) {
      try withTemporaryDirectory { path in
        seen = path
        #expect(Files.exists(path))
        throw Failure()
      }
    }
    #expect(!Files.exists(seen))
  }
}

@Suite struct ManualClockTests {
  @Test func `It stands still until told otherwise`() {
    let clock = ManualClock(milliseconds: 1000)
    #expect(clock.now == 1000)
    #expect(clock.advance(by: .seconds(2)) == 3000)
    #expect(clock.advance(by: .milliseconds(-500)) == 2500)
    #expect(clock.advance(by: .microseconds(1999)) == 2501)
    clock.set(to: -7)
    #expect(clock.now == -7)
  }
}

@Suite(.timeLimit(.minutes(10)))
struct PeerExecutableTests {
  @Test func `The peer built with the tests is found, and runs`() throws {
    let peer = try PeerExecutable.peer
    #expect(peer.path.hasPrefix("/"))
    #expect(Files.exists(peer.path))
    let child = try peer.start()
    child.closeInput()
    #expect(try child.wait() == .exited(0))
  }

  @Test func `A missing product is an error that tells what to build`() throws {
    let error = #expect(throws: PeerExecutable.NotFound.self) { try PeerExecutable("spoon") }
    #expect(error?.description.contains("swift build --product spoon") == true)
    #expect(error?.description.contains(PeerExecutable.overrideVariable) == true)
  }

  @Test func `Directories are searched in order`() throws {
    try withTemporaryDirectory { path in
      let error = #expect(throws: PeerExecutable.NotFound.self) {
        try PeerExecutable("sh", directories: [path])
      }
      #expect(error?.description.contains(path) == true)
      let shell = try PeerExecutable("sh", directories: [path, "/bin"])
      #expect(shell.path == "/bin/sh")
    }
  }

  @Test func `A directory named in the environment is the only one searched`() async {
    await #expect(processExitsWith: .success) {
      unsafe setenv(PeerExecutable.overrideVariable, "/bin", 1)
      let shell = try PeerExecutable("sh")
      #expect(shell.path == "/bin/sh")
      #expect(throws: PeerExecutable.NotFound.self) { try PeerExecutable.peer }
    }
  }

  @Test func `A bundle's depth is searched`() {
    let inside = "/b/debug/x.xctest/Contents/MacOS/x"
    #expect(
      PeerExecutable.enclosingDirectories(of: inside) == [
        "/b/debug/x.xctest/Contents/MacOS", "/b/debug/x.xctest/Contents", "/b/debug/x.xctest",
        "/b/debug", "/b",
      ])
    #expect(PeerExecutable.enclosingDirectories(of: "/x") == ["/"])
  }
}
