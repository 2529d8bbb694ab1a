// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderSystem
import LarderTesting
import Testing

@Suite(.timeLimit(.minutes(60)))
struct RemoteRecordTests {
  private let ground: TemporaryDirectory
  private let store: SharedStore
  private let names = (1...9).map { RemoteName("redis://server-\($0), prefix larder") }
  private let limit = StalenessLimit(.seconds(500))

  init() throws {
    ground = try TemporaryDirectory()
    store = try SharedStore(at: ground.path)
  }

  private var table: SharedTable { get throws { try store.core.generation().table } }
  private var wall: Int64 { Clocks.wallMilliseconds() }

  /// Makes the link of a record end, as after a time.
  private func age(_ record: RemoteRecord, minutes: UInt64) {
    record.confirm(
      fresh: RemoteRecord.now &- minutes * 60_000_000_000,
      wall: wall - Int64(minutes) * 60_000, roundTrip: 1)
  }

  private func fill() throws -> [RemoteRecord] {
    try names.prefix(8).map { try #require(table.remoteRecord($0)) }
  }

  @Test func `A ninth server has no record while all others were used in the last ten minutes`()
    throws
  {
    let records = try fill()
    age(records[3], minutes: 9)
    #expect(try table.remoteRecord(names[8]) == nil)
    #expect(try table.remoteRecords.count == 8)
  }

  @Test func `A ninth server gets the record of one that has had no link for ten minutes`() throws {
    let records = try fill()
    records[3].begin(link: 7, commitVersion: 100, server: "four")
    records[3].count(.writes, 5)
    age(records[3], minutes: 11)
    let ninth = try #require(try table.remoteRecord(names[8]))
    #expect(ninth.isNamed && !records[3].isNamed)
    #expect(ninth.link == 0 && ninth.text.isEmpty && ninth.value(of: .writes) == 0)
    #expect(ninth.verifiedFrom == 100, "An entry of the former server must not be verified.")
    #expect(!ninth.isFresh(at: wall, within: limit))
    // The former one gets no other record.
    #expect(try table.remoteRecord(names[3]) == nil)
  }

  @Test func `A link that continues after its record was taken confirms nothing`() throws {
    let records = try fill()
    age(records[3], minutes: 11)
    let ninth = try #require(try table.remoteRecord(names[8]))
    records[3].confirm(fresh: RemoteRecord.now, wall: wall, roundTrip: 1)
    #expect(!ninth.isFresh(at: wall, within: limit))
    ninth.confirm(fresh: RemoteRecord.now, wall: wall, roundTrip: 1)
    #expect(ninth.isFresh(at: wall, within: limit))
    #expect(!records[3].isFresh(at: wall, within: limit), "These are the times of another server.")
  }

  @Test func `A record that was never confirmed is taken ten minutes after it was first used`()
    throws
  {
    let start = wall
    _ = try fill()
    #expect(try table.remoteRecord(names[8], at: start + 599_000) == nil)
    let isUpLongEnough = Clocks.monotonicNanoseconds() > 600_000_000_000
    #expect((try table.remoteRecord(names[8], at: wall + 601_000) != nil) == isUpLongEnough)
  }

  @Test func `A record that was never confirmed is not fresh, whatever the limit`() throws {
    let forever = StalenessLimit(.seconds(1 << 31))
    let records = try fill()
    #expect(!records[0].isFresh(at: wall, within: forever))
    #expect(records[0].age > .seconds(1 << 29))
    age(records[3], minutes: 11)
    let ninth = try #require(try table.remoteRecord(names[8]))
    #expect(!ninth.isFresh(at: wall, within: forever))
    #expect(ninth.age > .seconds(1 << 29))
  }

  @Test func `Tasks that take a record for one server at the same time get the same one`()
    async throws
  {
    let table = try table
    for record in try fill() { age(record, minutes: 11) }
    let other = RemoteName("other")
    let found = await withTaskGroup(of: RemoteRecord?.self) { group in
      for _ in 0..<32 { group.addTask { table.remoteRecord(other) } }
      return await group.reduce(into: []) { $0.append($1) }
    }
    #expect(found.count == 32 && found.allSatisfy { $0 != nil })
    #expect(table.remoteRecord(other)?.isNamed == true)
  }

  @Test func `Tasks that take records at the same time share none of different servers`()
    async throws
  {
    for record in try fill() { age(record, minutes: 11) }
    let table = try table
    let others = (20..<28).map { RemoteName("other \($0)") }
    await withTaskGroup(of: Void.self) { group in
      for name in others + others { group.addTask { _ = table.remoteRecord(name) } }
    }
    let found = others.compactMap { table.remoteRecord($0) }
    #expect(found.allSatisfy { $0.isNamed })
    #expect(table.remoteRecords.count == 8)
  }
}
