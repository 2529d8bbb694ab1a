// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderObjects
import LarderTesting
import Testing

// One stored type of one version, as two programs declare it: the types in the newer one have more fields.

private struct NewOrder: Storable, Equatable {
  struct Address: Codable, Sendable, Equatable {
    var city: String
    var zip: String?
    var geo: Geo?
  }
  struct Geo: Codable, Sendable, Equatable {
    var north: Double
    var height: Double?
  }
  struct Line: Codable, Sendable, Equatable {
    var item: String
    var count: Int
    var price: Int?
  }
  enum Shipping: Codable, Sendable, Equatable {
    case pickup(shop: String)
    case post(days: Int, insured: Bool?)
  }

  let id: Int
  var address: Address?
  var lines: [Line] = []
  var labels: [String: String] = [:]
  var shipping: Shipping = .pickup(shop: "s")
  @HasOne var clerk: Person? = nil
  static let storedName = "nested.Order"
}

private struct OldOrder: Storable, Equatable {
  struct Address: Codable, Sendable, Equatable {
    var city: String
    var geo: Geo?
  }
  struct Geo: Codable, Sendable, Equatable {
    var north: Double
  }
  struct Line: Codable, Sendable, Equatable {
    var item: String
    var count: Int
  }
  enum Shipping: Codable, Sendable, Equatable {
    case pickup(shop: String)
    case post(days: Int)
  }

  let id: Int
  var address: Address?
  var lines: [Line] = []
  var labels: [String: String] = [:]
  var shipping: Shipping = .pickup(shop: "s")
  @HasOne var clerk: Person? = nil
  static let storedName = "nested.Order"
}

@Suite(.timeLimit(.minutes(60))) struct NestedFieldTests {
  private let ground: StoreFixture
  private let newer: ObjectStore
  private let older: ObjectStore

  init() throws {
    ground = try StoreFixture(StoreOptions())
    newer = ground.store
    older = try ObjectStore(at: ground.path, StoreOptions())
  }

  private var order: NewOrder {
    NewOrder(
      id: 1, address: .init(city: "Bern", zip: "3000", geo: .init(north: 46.9, height: 542)),
      lines: [.init(item: "a", count: 1, price: 10), .init(item: "b", count: 2, price: 20)],
      labels: ["x": "1", "y": "2"], shipping: .post(days: 2, insured: true))
  }

  /// Changes the order as the older program does, and returns what the newer one reads.
  private func changed(_ body: (inout OldOrder) -> Void) throws -> NewOrder {
    try newer.save(order)
    var old = try #require(try older.object(OldOrder.self, id: 1))
    body(&old)
    try older.save(old)
    #expect(try older.object(OldOrder.self, id: 1) == old)
    #expect(try newer.storage.verify() == [])
    return try #require(try newer.object(NewOrder.self, id: 1))
  }

  @Test func `Fields of nested types that a program does not declare survive its save`() throws {
    let read = try changed {
      $0.address?.city = "Basel"
      $0.address?.geo?.north = 47.5
    }
    var expected = order
    expected.address?.city = "Basel"
    expected.address?.geo?.north = 47.5
    #expect(read == expected)
  }

  @Test func `An object that a program removes is deleted with all its fields`() throws {
    var expected = order
    expected.address = nil
    #expect(try changed { $0.address = nil } == expected)
    expected = order
    expected.address?.geo = nil
    #expect(try changed { $0.address?.geo = nil } == expected)
    // Keys of a dictionary and cases of an enumeration are not fields.
    expected = order
    expected.labels["x"] = nil
    #expect(try changed { $0.labels["x"] = nil } == expected)
    expected = order
    expected.shipping = .pickup(shop: "t")
    #expect(try changed { $0.shipping = .pickup(shop: "t") } == expected)
  }

  @Test func `Unchanged elements of an array keep fields that a program does not declare`()
    throws
  {
    var expected = order
    expected.labels["z"] = "3"
    #expect(try changed { $0.labels["z"] = "3" } == expected)
    expected = order
    expected.lines.reverse()
    #expect(try changed { $0.lines.reverse() } == expected)
    expected = order
    expected.lines.append(.init(item: "c", count: 3))
    #expect(try changed { $0.lines.append(.init(item: "c", count: 3)) } == expected)
    expected = order
    expected.lines.remove(at: 0)
    #expect(try changed { $0.lines.remove(at: 0) } == expected)
  }

  @Test func `A save that would drop fields of a changed element is refused and names them`() throws
  {
    let error = #expect(throws: ObjectError.self) {
      _ = try changed { $0.lines[1].count = 7 }
    }
    #expect(error?.code == .schemaMismatch && error?.ids == ["1"])
    #expect(error?.message.contains("lines.[].price") == true, "\(error!)")
    #expect(try newer.object(NewOrder.self, id: 1) == order)
    // The program that declares the field may change it.
    var edited = order
    edited.lines[1].count = 7
    edited.lines[0].price = nil
    try newer.save(edited)
    #expect(try newer.object(NewOrder.self, id: 1) == edited)
  }

  @Test func `A program that declares all fields drops those it sets to nil, in any process`()
    throws
  {
    try newer.save(order)
    let other = try ObjectStore(at: ground.path, StoreOptions())
    var bare = order
    bare.address?.zip = nil
    bare.address?.geo?.height = nil
    bare.lines[0].price = nil
    bare.shipping = .post(days: 2, insured: nil)
    try other.save(bare)
    #expect(try newer.object(NewOrder.self, id: 1) == bare)
  }
}
