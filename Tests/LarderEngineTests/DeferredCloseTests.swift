// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Foundation
import Larder
import LarderEngine
import LarderSystem
import LarderTesting
import Testing

/// A store that could not be closed in time, and is opened again by the same process.
@Suite(.timeLimit(.minutes(60))) struct DeferredCloseTests {
  let directory: TemporaryDirectory
  init() throws { directory = try TemporaryDirectory() }
  var path: String { directory.path + "/store" }

  @Test(arguments: Durability.allCases)
  func `A close that fails at a held gate is completed by the next opening`(
    durability: Durability
  ) throws {
    let options = StoreOptions(durability: durability, openTimeout: .milliseconds(200))
    for round in 0..<3 {
      let store = try SharedStore(at: path, options)
      if round > 0 { #expect(try store.bytes(forKey: round - 1) == [7]) }
      try store.setBytes([7], forKey: round)
      let gate = try OpenLock.enter(store.core.directory, timeout: .seconds(600))
      store.close()
      gate.leave()
    }
    let store = try SharedStore(at: path, options)
    #expect(try store.bytes(forKey: 2) == [7])
    #expect(try store.verify() == [])
    store.close()
  }

  @Test func `A durable store whose writer does not come out is opened again when it has`() throws {
    let store = try SharedStore(at: path, .init(durability: .durable))
    try store.setBytes([7], forKey: 1)
    let generation = try store.core.generation()
    #expect(generation.acquireProcessWriterLock(nanoseconds: 300_000_000_000))
    store.close()
    let error = #expect(throws: StoreError.self) {
      try SharedStore(at: path, .init(durability: .durable))
    }
    #expect(error?.code == .writerStalled, "\(error.map { "\($0)" } ?? "")")
    #expect(error?.pid == ProcessIdentity.pid)
    generation.releaseProcessWriterLock()
    let again = try SharedStore(at: path, .init(durability: .durable))
    #expect(try again.bytes(forKey: 1) == [7])
    #expect(try again.verify() == [])
  }

  #if os(Linux)
  @Test(arguments: Durability.allCases)
  func `A store whose directory was removed releases its map when it closes`(
    durability: Durability
  ) throws {
    let directory = try TemporaryDirectory()
    let store = try SharedStore(
      at: directory.appending("store"), StoreOptions(durability: durability))
    try store.setBytes([7], forKey: 1)
    #expect(try isMapped(directory.path))
    TestFiles.removeAll(directory.path)
    store.close()
    // The store's thread may be in its last step.
    try eventually("the map is released") { try !isMapped(directory.path) }
  }

  @Test func `No other directory gets the identity of an open store that was removed`() throws {
    let removed = directory.appending("removed")
    let store = try SharedStore(at: removed)
    let root = try #require(try FileSystem.status(of: removed + "/v1")?.identity)
    TestFiles.removeAll(removed)
    // A file system gives a free inode number to the next directory.
    for number in 0..<50 {
      let other = directory.appending("other-\(number)")
      try TestFiles.makeDirectory(other)
      #expect(try FileSystem.status(of: other)?.identity != root)
    }
    store.close()
  }

  private func isMapped(_ path: String) throws -> Bool {
    String(decoding: try TestFiles.contents(of: "/proc/self/maps"), as: UTF8.self).contains(path)
  }
  #endif

  @Test func `A cache whose writer does not finish is abandoned`() throws {
    let store = try SharedStore(at: path)
    try store.setBytes([7], forKey: 1)
    let generation = try store.core.generation()
    #expect(generation.acquireProcessWriterLock(nanoseconds: 300_000_000_000))
    store.close()
    let log = EventLog()
    let again = try SharedStore(at: path, log.options())
    #expect(log.resetToEmpty)
    #expect(try again.bytes(forKey: 1) == nil)
    try again.setBytes([8], forKey: 1)
    #expect(try again.bytes(forKey: 1) == [8])
    #expect(try again.verify() == [])
    generation.releaseProcessWriterLock()
  }
}
