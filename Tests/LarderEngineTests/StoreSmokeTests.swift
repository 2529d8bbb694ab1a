// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import Larder
import LarderEngine
import LarderLMDB
import LarderTesting
import Testing

@Suite struct StoreSmokeTests {
  @Test func `What is set is read back`() throws {
    let directory = try TemporaryDirectory()
    let store = try SharedStore(at: directory.path + "/store")
    #expect(try store.bytes(forKey: "a") == nil)
    try store.setBytes([1, 2, 3], forKey: "a")
    #expect(try store.bytes(forKey: "a") == [1, 2, 3])
    try store.setBytes([UInt8](repeating: 7, count: 1_000_000), forKey: "big")
    #expect(try store.bytes(forKey: "big")?.count == 1_000_000)
    #expect(try store.remove(forKey: "a"))
    #expect(try store.bytes(forKey: "a") == nil)
    #expect(try store.verify() == [])
    try store.removeAll()
    #expect(try store.bytes(forKey: "big") == nil)
    #expect(try store.verify() == [])
    try store.write { transaction in
      try transaction.setBytes([9], forKey: 1, in: "x")
      try transaction.setBytes([8], forKey: 2, in: "x")
    }
    #expect(try store.bytes(forKey: 2, in: "x") == [8])
    store.close()
    let again = try SharedStore(at: directory.path + "/store")
    #expect(try again.bytes(forKey: 2, in: "x") == [8])
    #expect(try again.verify() == [])
  }

  // A transaction id that LMDB assigned twice would make two commit versions equal.
  @Test func `Each write is one transaction of LMDB, also with unchanged counters`()
    throws
  {
    let directory = try TemporaryDirectory()
    // The store's thread begins no transaction in between.
    var options = StoreOptions()
    options.sweepsWhenIdle = false
    options.idleSyncDelay = nil
    let store = try SharedStore(at: directory.path + "/store", options)
    let generation = try store.core.generation()
    var last = try generation.information().lastTransaction
    func expectOne(_ body: () throws -> Void) throws {
      try body()
      let now = try generation.information().lastTransaction
      #expect(now == last + 1)
      last = now
    }
    try expectOne { try store.setBytes([1, 2, 3], forKey: "a") }
    for byte in 0..<3 as Range<UInt8> {
      try expectOne { try store.setBytes([byte, 2, 3], forKey: "a") }
      try expectOne { try store.core.submit(WriteRequest(.commitNoOp)) }
      try expectOne { try store.write { try $0.setBytes([byte, 1, 1], forKey: "a") } }
    }
    try expectOne { try store.setBytes([1], forKey: "a") }
    try expectOne { try store.remove(forKey: "a") }
    #expect(try store.verify() == [])
  }

  @Test func `The budget holds`() throws {
    let directory = try TemporaryDirectory()
    let store = try SharedStore(at: directory.path + "/store", .init(budget: .kilobytes(256)))
    for index in 0..<5000 {
      try store.setBytes([UInt8](repeating: 1, count: 200), forKey: index)
      if index % 500 == 0 { #expect(try store.statistics().bytes <= 256 << 10) }
    }
    let stat = try store.statistics()
    #expect(stat.bytes <= 256 << 10 && stat.bytes > 250 << 10)
    #expect(stat.evictions > 3000)
    #expect(try store.verify() == [])
  }
}
