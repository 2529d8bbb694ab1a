// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Larder
import LarderEngine
import LarderTesting
import Testing

// A network file system cannot be mounted in a test: that refusal is not covered here.

/// The directories that a store accepts, and its errors about the others.
@Suite(.timeLimit(.minutes(60))) struct DirectoryTests {
  let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }
  var path: String { directory.path + "/store" }

  /// Opens a directory that has to be refused: with its path, and with a remedy.
  func expectRefusal(of path: String, remedy: String) {
    for durability in Durability.allCases {
      let error = #expect(throws: StoreError.self) {
        try SharedStore(at: path, .init(durability: durability))
      }
      #expect(error?.code == .directory)
      #expect(error?.path?.hasPrefix(path) == true, "\(error?.path ?? "no path")")
      #expect(error?.message.contains(remedy) == true, "\(error?.message ?? "no message")")
    }
  }

  @Test func `A file in the place of the directory is refused and kept`() throws {
    try TestFiles.write([1, 2, 3], to: path)
    expectRefusal(of: path, remedy: "Name a directory")
    #expect(try TestFiles.contents(of: path) == [1, 2, 3])
  }

  @Test func `A directory that holds an LMDB environment is refused, and nothing is put into it`()
    throws
  {
    try TestFiles.makeDirectory(path)
    try TestFiles.write([1, 2, 3], to: path + "/data.mdb")
    expectRefusal(of: path, remedy: "another directory")
    #expect(TestFiles.names(in: path) == ["data.mdb"])
    // Next to a store it is a stray file.
    TestFiles.removeAll(path + "/data.mdb")
    let store = try SharedStore(at: path)
    store.close()
    try TestFiles.write([1, 2, 3], to: path + "/data.mdb")
    try SharedStore(at: path).close()
  }

  @Test func `A file in the place of a parent is refused`() throws {
    try TestFiles.write([1, 2, 3], to: path)
    expectRefusal(of: path + "/below", remedy: "choose another")
  }

  @Test func `Missing directories are created, the store for the user alone`() throws {
    for (name, durability) in [("a", Durability.cache), ("b", .durable)] {
      let store = try SharedStore(
        at: directory.appending(name) + "/parent/store", .init(durability: durability))
      try store.setBytes([1], forKey: 1)
      for parent in [name, name + "/parent"] {
        #expect(try TestFiles.mode(directory.appending(parent)) & 0o022 == 0, "\(parent)")
      }
      #expect(try TestFiles.mode(store.path) == 0o700)
      let files = try StoreFiles(of: store.path)
      for made in [files.root, files.generation] { #expect(try TestFiles.mode(made) == 0o700) }
      for file in [files.current, files.data, files.table, files.lock, files.state] {
        #expect(try TestFiles.mode(file) & 0o077 == 0, "\(file)")
      }
    }
  }

  @Test(arguments: [0o720, 0o702, 0o777, 0o1777])
  func `A directory others may write to is refused`(mode: Int) throws {
    try TestFiles.makeDirectory(path)
    try TestFiles.setMode(mode, of: path)
    expectRefusal(of: path, remedy: "chmod 700")
    #expect(TestFiles.names(in: path) == [])
    try TestFiles.setMode(0o755, of: path)
    try SharedStore(at: path).setBytes([1], forKey: 1)
  }

  @Test func `A directory the user may not write to is refused`() throws {
    try TestFiles.makeDirectory(path)
    try TestFiles.setMode(0o500, of: path)
    expectRefusal(of: path, remedy: "chmod 700")
  }

  @Test func `A link of the same user is followed`() throws {
    try TestFiles.makeDirectory(directory.appending("real"))
    try TestFiles.makeSymbolicLink(path, to: directory.appending("real"))
    let store = try SharedStore(at: path)
    try store.setBytes([1], forKey: 1)
    #expect(try SharedStore(at: directory.appending("real")).core === store.core)
  }

  @Test func `A link that leads nowhere is refused and nothing is created for it`() throws {
    try TestFiles.makeSymbolicLink(path, to: directory.appending("missing"))
    expectRefusal(of: path, remedy: "Remove the link")
    #expect(!TestFiles.exists(directory.appending("missing")))
  }

  @Test func `A link to a directory others may write to is refused`() throws {
    try TestFiles.makeDirectory(directory.appending("real"))
    try TestFiles.setMode(0o777, of: directory.appending("real"))
    try TestFiles.makeSymbolicLink(path, to: directory.appending("real"))
    expectRefusal(of: path, remedy: "chmod 700")
  }

  @Test(.enabled(if: getuid() == 0, "only root gives files away"))
  func `A directory of another user is refused, also through a link`() throws {
    try TestFiles.makeDirectory(directory.appending("theirs"))
    try run("/bin/chown", "65534", directory.appending("theirs"))
    expectRefusal(of: directory.appending("theirs"), remedy: "directory of your")
    try TestFiles.makeSymbolicLink(path, to: directory.appending("theirs"))
    expectRefusal(of: path, remedy: "directory of your")
    #expect(TestFiles.names(in: directory.appending("theirs")) == [])
  }

  @Test(.enabled(if: getuid() == 0, "only root gives files away"))
  func `A link of another user is refused, whatever it leads to`() throws {
    try TestFiles.makeDirectory(directory.appending("real"))
    try TestFiles.makeSymbolicLink(path, to: directory.appending("real"))
    try run("/bin/chown", "-h", "65534", path)
    expectRefusal(of: path, remedy: "Name the directory itself")
  }

  @Test(.enabled(if: getuid() == 0, "only root gives files away"))
  func `A foreign directory or link in a sticky directory is named, not the sticky directory`()
    throws
  {
    let sticky = directory.appending("sticky")
    try TestFiles.makeDirectory(sticky)
    try TestFiles.setMode(0o1777, of: sticky)
    try TestFiles.makeDirectory(sticky + "/theirs")
    try TestFiles.makeSymbolicLink(sticky + "/link", to: directory.path)
    try run("/bin/chown", "-h", "65534", sticky + "/theirs", sticky + "/link")
    expectRefusal(of: sticky + "/theirs/store", remedy: "\(sticky)/theirs belongs to user 65534")
    expectRefusal(of: sticky + "/link", remedy: "\(sticky)/link is a link")
  }

  @Test func `A path that begins with a tilde and is not expanded is refused`() {
    // In the working directory, were it created there.
    let name = "~larder-test-\(UUID())"
    defer { TestFiles.removeAll("./" + name) }
    expectRefusal(of: name, remedy: "absolute path")
    expectRefusal(of: name + "/store", remedy: "absolute path")
    #expect(!TestFiles.exists("./" + name))
  }

  @Test func `An empty path and one with a NUL are refused`() {
    expectRefusal(of: "", remedy: "empty")
    #expect(throws: StoreError.self) { try SharedStore(at: directory.path + "/a\0b") }
  }

  @Test func `Linked parents, relative paths and dots give one environment`() throws {
    let first = try SharedStore(at: path)
    try TestFiles.makeSymbolicLink(directory.appending("link"), to: directory.path)
    let current = FileManager.default.currentDirectoryPath
    let depth = current.split(separator: "/").count
    let relative = String(repeating: "../", count: depth) + path.dropFirst()
    for other in [
      path, path + "///", directory.path + "/./store", directory.path + "/link/store",
      directory.path + "/store/../store", relative,
    ] {
      let again = try SharedStore(at: other)
      #expect(again.core === first.core, "\(other)")
      again.close()
    }
    try first.setBytes([1], forKey: 1)
    #expect(try first.statistics().processes.count == 1)
  }

  @Test func `Threads that open and close one store at once share it`() throws {
    let path = path
    let threads = (0..<8).map { thread in
      JoinableThread {
        for round in 0..<20 {
          do {
            let store = try SharedStore(at: path)
            try store.setBytes([UInt8(round)], forKey: thread)
            if try store.bytes(forKey: thread) != [UInt8(round)] {
              Issue.record("thread \(thread) lost round \(round)")
            }
            store.close()
          } catch {
            Issue.record(error)
          }
        }
      }
    }
    for thread in threads { thread.join() }
    let store = try SharedStore(at: path)
    for thread in 0..<8 { #expect(try store.bytes(forKey: thread) == [19]) }
    #expect(try store.verify() == [])
  }
}
