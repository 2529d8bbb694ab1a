// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderTestSupport
import LarderTesting
import Testing

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

@Suite(.timeLimit(.minutes(60)))
struct TemporaryDirectoryTests {
  @Test func `A directory is fresh and private`() throws {
    let first = try TemporaryDirectory()
    let second = try TemporaryDirectory()
    #expect(first.path != second.path)
    #expect(try TestFiles.mode(first.path) == 0o700)
    #expect(TestFiles.names(in: first.path) == [])
  }

  @Test func `Everything in it is deleted with it, links without their targets`() async {
    await #expect(processExitsWith: .success) {
      // Root needs no permissions: a missing one would not be noticed.
      if getuid() == 0 {
        unsafe unsetenv("TMPDIR")
        try #require(setgid(65_534) == 0 && setuid(65_534) == 0)
      }
      let kept = try TemporaryDirectory()
      try TestFiles.write([1, 2, 3], to: kept.appending("file"))
      var directory: TemporaryDirectory? = try TemporaryDirectory()
      let path = try #require(directory).path
      try TestFiles.makeDirectory("\(path)/a")
      try TestFiles.makeDirectory("\(path)/a/b")
      try TestFiles.write([4], to: "\(path)/a/b/file")
      try TestFiles.makeSymbolicLink("\(path)/a/link", to: kept.path)
      try TestFiles.setMode(0, of: "\(path)/a")
      #expect(throws: SystemCallError.self) { try TestFiles.contents(of: "\(path)/a/b/file") }
      directory = nil
      #expect(!TestFiles.exists(path))
      #expect(try TestFiles.contents(of: kept.appending("file")) == [1, 2, 3])
    }
  }

  @Test func `The scoped form removes it also when the body throws`() throws {
    struct Failure: Error {}
    var seen = ""
    #expect(throws: Failure.self) {
      try withTemporaryDirectory { path in
        seen = path
        #expect(TestFiles.exists(path))
        throw Failure()
      }
    }
    #expect(!TestFiles.exists(seen))
  }
}

@Suite struct ManualClockTests {
  @Test func `A manual clock does not advance until it is set`() {
    let clock = ManualClock(milliseconds: 1000)
    #expect(clock.now == 1000)
    #expect(clock.advance(by: .seconds(2)) == 3000)
    #expect(clock.advance(by: .milliseconds(-500)) == 2500)
    #expect(clock.advance(by: .microseconds(1999)) == 2501)
    clock.set(to: -7)
    #expect(clock.now == -7)
  }

  @Test func `Clocks of one file are one clock, and the first one sets its time`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.appending("clock")
    let first = try ManualClock(sharedAt: path, milliseconds: 0)
    let second = try ManualClock(sharedAt: path, milliseconds: 5)
    #expect(second.now == 0)
    #expect(second.advance(by: .seconds(3)) == 3000)
    #expect(first.now == 3000)
    first.set(to: .max)
    #expect(second.now == .max)
    first.set(to: -1)
    #expect(try ManualClock(sharedAt: path).now == -1)
  }

  @Test func `A file of another size is refused as a clock`() throws {
    let directory = try TemporaryDirectory()
    try TestFiles.write([1, 2, 3], to: directory.appending("clock"))
    let error = #expect(throws: SystemCallError.self) {
      try ManualClock(sharedAt: directory.appending("clock"))
    }
    #expect(error?.errno == EINVAL)
    #expect(try TestFiles.contents(of: directory.appending("clock")) == [1, 2, 3])
    #expect(throws: SystemCallError.self) {
      try ManualClock(sharedAt: directory.appending("no/clock"))
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `What expires for one process expires for the other`() throws {
    let directory = try TemporaryDirectory()
    let path = directory.appending("clock")
    let clock = try ManualClock(sharedAt: path, milliseconds: 1000)
    let temporary = try TemporaryStore(StoreOptions(clock: clock.storeClock))
    let cache = PersistentCache<Int, String>(storage: temporary.store)
    let peer = try TestExecutable.peer.start()
    #expect(try peer.ask("open \(temporary.path) shared=\(path)").hasPrefix("opened "))
    #expect(try peer.ask("expiring 1 2000 salt") == "ok")
    #expect(cache[1] == "salt")
    #expect(try peer.ask("get 1") == "value salt")
    clock.advance(by: .milliseconds(999))
    #expect(cache[1] == "salt")
    #expect(try peer.ask("get 1") == "value salt")
    clock.advance(by: .milliseconds(1))
    #expect(cache[1] == nil)
    #expect(try peer.ask("get 1") == "none")
    try temporary.verifyAndClose()
  }
}

@Suite(.timeLimit(.minutes(60)))
struct PeerExecutableTests {
  @Test func `The peer built with the tests is found, and runs`() throws {
    let peer = try TestExecutable.peer
    #expect(peer.path.hasPrefix("/"))
    #expect(TestFiles.exists(peer.path))
    let child = try peer.start()
    child.closeInput()
    #expect(try child.wait() == .exited(0))
  }

  @Test func `A missing product is an error that names the target to build`() throws {
    let error = #expect(throws: TestExecutable.NotFound.self) { try TestExecutable("spoon") }
    #expect(error?.description.contains("swift build --product spoon") == true)
    #expect(error?.description.contains(TestExecutable.overrideVariable) == true)
  }

  @Test func `Directories are searched in order`() throws {
    try withTemporaryDirectory { path in
      let error = #expect(throws: TestExecutable.NotFound.self) {
        try TestExecutable("sh", directories: [path])
      }
      #expect(error?.description.contains(path) == true)
      let shell = try TestExecutable("sh", directories: [path, "/bin"])
      #expect(shell.path == "/bin/sh")
    }
  }

  @Test func `A directory named in the environment is the only one searched`() async {
    await #expect(processExitsWith: .success) {
      unsafe setenv(TestExecutable.overrideVariable, "/bin", 1)
      let shell = try TestExecutable("sh")
      #expect(shell.path == "/bin/sh")
      #expect(throws: TestExecutable.NotFound.self) { try TestExecutable.peer }
    }
  }

  @Test func `Files whose names are no text are removed with their directory`() throws {
    let path: String
    do {
      let directory = try TemporaryDirectory()
      path = directory.path
      let outcome = try ChildProcess.run(
        "/bin/sh",
        ["-c", "mkdir \"$0/$(printf 'n\\374')\" && touch \"$0/$(printf 'n\\374')/a\"", path])
      #expect(outcome.status.isSuccess, "\(outcome.standardError)")
    }
    #expect(!TestFiles.exists(path))
  }

  @Test func `A directory that a child makes again is removed at the end of the process`()
    async throws
  {
    let directory = try TemporaryDirectory()
    let note = directory.appending("note")
    await #expect(processExitsWith: .success) { [note = note as String] in
      let path = try withTemporaryDirectory { $0 }
      try TestFiles.makeDirectory(path)
      try TestFiles.write([1], to: path + "/late")
      try TestFiles.write(Array(path.utf8), to: note)
    }
    let path = String(decoding: try TestFiles.contents(of: note), as: UTF8.self)
    #expect(path.hasPrefix("/") && !TestFiles.exists(path), "\(path)")
  }

  @Test func `A bundle's depth is searched`() {
    let inside = "/b/debug/x.xctest/Contents/MacOS/x"
    #expect(
      TestExecutable.enclosingDirectories(of: inside) == [
        "/b/debug/x.xctest/Contents/MacOS", "/b/debug/x.xctest/Contents", "/b/debug/x.xctest",
        "/b/debug", "/b",
      ])
    #expect(TestExecutable.enclosingDirectories(of: "/x") == ["/"])
  }
}
