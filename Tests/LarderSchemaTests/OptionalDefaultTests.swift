// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Macros
import LarderEngine
import LarderSchema
import LarderTesting
import Testing

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

@StorableValue enum Shade: String { case light, dark }
typealias MaybeDate = Date?

@StorableValue struct Lamp: Equatable {
  var shade: Shade? = .dark
  var made: Date? = Date(timeIntervalSinceReferenceDate: 5)
  var level: Int? = 3
}

@Storable struct Room: Equatable {
  let id: Int
  var price: Decimal? = 1.5
  var made: Date? = Date(timeIntervalSinceReferenceDate: 5)
  var key: UUID? = UUID()
  var shade: Shade? = .dark
  var level: Int? = 3
  var text: String? = "none"
  var list: [Int]? = [1]
  var opened: MaybeDate = Date(timeIntervalSinceReferenceDate: 7)
  var lamp: Lamp? = Lamp()
  static let storedName = "Room"
}

@Storable struct BareRoom {
  let id: Int
  static let storedName = "Room"
}

@Storable struct BareDesk: Equatable {
  let id: Int
  var name = ""
  static let storedName = "Desk"
}

@Storable struct LinkedDesk {
  let id: Int
  var name = ""
  @HasOne var room: BareRoom?
  @HasMany var rooms: [BareRoom]
  static let storedName = "Desk"
}

@Suite(.timeLimit(.minutes(60))) struct OptionalDefaultTests {
  private func room(_ id: Int, lamp: Lamp?) -> Room {
    Room(
      id: id, price: nil, made: nil, key: nil, shade: nil, level: nil, text: nil, list: nil,
      opened: nil, lamp: lamp)
  }

  @Test func `An optional property with a default of any type is nil where nil was saved`() throws {
    let temporary = try TemporaryStore()
    let first = ObjectStore(temporary.store)
    let rooms = [room(1, lamp: nil), room(2, lamp: Lamp(shade: nil, made: nil, level: nil))]
    try first.save(rooms)
    let other = try ObjectStore(at: temporary.path, StoreOptions(durability: .cache))
    for store in [first, other] {
      let all = store.objects(Room.self)
      #expect(try all.fetch() == rooms)
      #expect(try store.object(Room.self, id: 2) == rooms[1])
      let empty = all.where { $0.price.isNil() && $0.made.isNil() && $0.shade.isNil() }
      #expect(try empty.count() == 2 && empty.where(\.opened == nil).count() == 2)
      #expect(try all.where(\.shade == .dark).count() == 0)
    }
  }

  @Test func `An optional property has its default where the field is missing`() throws {
    let temporary = try TemporaryStore()
    let store = ObjectStore(temporary.store)
    try store.save(BareRoom(id: 1))
    let room = try #require(try store.object(Room.self, id: 1))
    #expect(room.price == 1.5 && room.made == Date(timeIntervalSinceReferenceDate: 5))
    #expect(room.key != nil && room.shade == .dark && room.level == 3 && room.text == "none")
    #expect(room.list == [1] && room.lamp == Lamp())
    #expect(room.opened == Date(timeIntervalSinceReferenceDate: 7))
    #expect(try store.objects(Room.self).where(\.shade == .dark).count() == 1)
  }

  @Test func `A reference that was added later is empty where its field is missing`() throws {
    let temporary = try TemporaryStore()
    let older = ObjectStore(temporary.store)
    try older.save([BareDesk(id: 1), BareDesk(id: 2)])
    let newer = try ObjectStore(at: temporary.path, StoreOptions(durability: .cache))
    let desks = newer.objects(LinkedDesk.self)
    #expect(try desks.fetch().map { $0.$room.id } == [nil, nil])
    #expect(try desks.where(\.id == 2).fetch().allSatisfy(\.rooms.isEmpty))
    var desk = try #require(try newer.object(LinkedDesk.self, id: 1))
    desk.room = BareRoom(id: 7)
    desk.rooms = [BareRoom(id: 8)]
    try newer.save(desk)
    let linked = try #require(try newer.object(LinkedDesk.self, id: 1))
    #expect(linked.room?.id == 7 && linked.rooms.map(\.id) == [8])
    #expect(try desks.fetch().map { $0.$room.id } == ["7", nil])
    #expect(try desks.count() == 2 && temporary.store.verify() == [])
  }
}
#endif
