// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import LarderSystem
import LarderTesting
import Testing

/// Directories that stay the same ones whatever happens to their names.
struct HeldDirectoryTests {
  let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }

  #if os(Linux)
  @Test func `Another directory in its place does not change what a held directory leads to`()
    throws
  {
    let path = directory.appending("a")
    let held = try HeldDirectory(path, creating: true)
    try TestFiles.write([1], to: path + "/file")
    try TestFiles.move(path, to: directory.appending("b"))
    try TestFiles.makeDirectory(path)
    try TestFiles.write([2], to: path + "/file")
    #expect(try TestFiles.contents(of: held.reference + "/file") == [1])
    #expect(HeldDirectory.realPath(held.reference + "/file") == path + "/file")
    // Deleted and created again: the owner leads it there.
    held.follow(try HeldDirectory(path, creating: false))
    #expect(try TestFiles.contents(of: held.reference + "/file") == [2])
  }

  @Test func `An error about a file in a held directory shows the real path`() throws {
    let path = directory.appending("a")
    let held = try HeldDirectory(path, creating: true)
    let error = #expect(throws: SystemError.self) {
      try OwnedFile(path: held.reference + "/missing")
    }
    #expect(error?.path == path + "/missing")
  }
  #endif

  @Test func `Missing directories are created, the last one for the user alone`() throws {
    _ = try HeldDirectory(directory.appending("x/./y//z/"), creating: true)
    #expect(try TestFiles.mode(directory.appending("x")) & 0o022 == 0)
    #expect(try TestFiles.mode(directory.appending("x/y/z")) == 0o700)
    #expect(throws: PathWalkError.self) {
      try HeldDirectory(directory.appending("none"), creating: false)
    }
  }

  @Test func `Links are followed, and a loop of links is an error`() throws {
    let real = directory.appending("real")
    try TestFiles.makeDirectory(real)
    try TestFiles.makeSymbolicLink(directory.appending("absolute"), to: real)
    try TestFiles.makeSymbolicLink(directory.appending("relative"), to: "./absolute/../real")
    let held = try HeldDirectory(directory.appending("relative/below"), creating: true)
    #expect(TestFiles.exists(real + "/below"))
    #expect(held.path == directory.appending("relative/below"))
    try TestFiles.makeSymbolicLink(directory.appending("loop"), to: "loop")
    #expect(throws: PathWalkError.self) {
      try HeldDirectory(directory.appending("loop"), creating: true)
    }
  }

  @Test(arguments: [(0o777, false), (0o775, true), (0o1777, true), (0o755, true)])
  func `A parent is accepted or refused by its mode`(mode: Int, isSafe: Bool) throws {
    let parent = directory.appending("parent")
    try TestFiles.makeDirectory(parent)
    try TestFiles.setMode(mode, of: parent)
    if isSafe {
      _ = try HeldDirectory(parent + "/store", creating: true)
    } else {
      #expect(throws: PathWalkError.self) {
        try HeldDirectory(parent + "/store", creating: true)
      }
      #expect(!TestFiles.exists(parent + "/store"))
    }
  }
}
