// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderObjects
import LarderTesting
import Testing

/// An object with a unique key, and children that have one, too.
struct Plated: Storable, Equatable {
  let id: Int
  var plate: String
  @HasMany var parts: [Plated] = []
  var paint: Paint = Paint()

  static let indexes = [Index("plate", \Plated.plate, unique: true)]

  /// A value that cannot be encoded while it is wet.
  struct Paint: Codable, Equatable, Sendable {
    var isWet = false

    struct Wet: Error {}

    func encode(to encoder: any Encoder) throws {
      if isWet { throw Wet() }
      var container = encoder.singleValueContainer()
      try container.encode("dry")
    }

    init(isWet: Bool = false) { self.isWet = isWet }
    init(from decoder: any Decoder) throws {
      _ = try decoder.singleValueContainer().decode(String.self)
    }
  }

  static func wet(_ id: Int) -> Plated {
    Plated(id: id, plate: "wet \(id)", paint: Paint(isWet: true))
  }
}

@Suite struct OperationTests {
  private func codes(_ body: () throws -> Void) -> ObjectError.Code? {
    do {
      try body()
      return nil
    } catch {
      return (error as? ObjectError)?.code
    }
  }

  @Test(.timeLimit(.minutes(60)))
  func `A batch that fails in the middle and is caught stores nothing of its transaction`() throws {
    let ground = try StoreFixture(StoreOptions())
    let store = ground.store
    try store.save(Plated(id: 1, plate: "A"))
    let code = codes {
      try store.write { transaction in
        try transaction.save(Plated(id: 9, plate: "before"))
        try? transaction.save([Plated(id: 2, plate: "B"), .wet(3)])
      }
    }
    #expect(code == .transactionFailed)
    #expect(try store.objects(Plated.self).fetch().map(\.id) == [1])
    #expect(try store.storage.verify() == [])
  }

  @Test(.timeLimit(.minutes(60)))
  func `An operation after a failed one is refused with the cause`() throws {
    let ground = try StoreFixture(StoreOptions())
    let store = ground.store
    try store.save(Plated(id: 1, plate: "A"))
    let seen = try? store.write { transaction -> [String] in
      try? transaction.save([Plated(id: 2, plate: "B"), .wet(3)])
      var messages: [String] = []
      do { try transaction.save(Plated(id: 4, plate: "C")) } catch { messages.append("\(error)") }
      do {
        _ = try transaction.delete(Plated.self, id: 1)
      } catch { messages.append("\(error)") }
      do { try transaction.deleteAll(Plated.self) } catch { messages.append("\(error)") }
      do { try transaction.reset() } catch { messages.append("\(error)") }
      struct Messages: Error { let all: [String] }
      #expect(messages.count == 4)
      #expect(messages.allSatisfy { $0.contains("cannot be encoded") })
      return messages
    }
    #expect(seen == nil)
    #expect(try store.objects(Plated.self).fetch().map(\.id) == [1])
  }

  @Test(.timeLimit(.minutes(60)))
  func `A child that cannot be saved takes its parent with it`() throws {
    let ground = try StoreFixture(StoreOptions())
    let store = ground.store
    try store.save(Plated(id: 1, plate: "A"))
    let code = codes {
      try store.write { transaction in
        try? transaction.save(Plated(id: 2, plate: "B", parts: [.wet(3)]))
      }
    }
    #expect(code == .transactionFailed)
    #expect(try store.objects(Plated.self).fetch().map(\.id) == [1])
  }

  @Test(.timeLimit(.minutes(60)))
  func `An object that cannot be encoded leaves its children to no other object`() throws {
    let ground = try StoreFixture(StoreOptions())
    let store = ground.store
    let wet = Plated(
      id: 2, plate: "B", parts: [Plated(id: 3, plate: "C")], paint: Plated.Paint(isWet: true))
    try store.write { transaction in
      try transaction.save(Part(id: "a", weight: 1))
      #expect(throws: ObjectError.self) { try transaction.save(wet) }
      try transaction.save(Part(id: "b", weight: 2))
    }
    // Nor to one of a later transaction.
    #expect(throws: ObjectError.self) { try store.save(wet) }
    try store.save(Part(id: "c", weight: 3))
    #expect(try store.objects(Plated.self).count() == 0)
    #expect(try store.objects(Part.self).count() == 3)
    #expect(try store.storage.verify() == [])
  }

  @Test(.timeLimit(.minutes(60)))
  func `An operation that fails before it writes changes nothing and the transaction continues`()
    throws
  {
    let ground = try StoreFixture(StoreOptions())
    let store = ground.store
    try store.save(Plated(id: 1, plate: "A"))
    try store.write { transaction in
      try transaction.save(Plated(id: 2, plate: "B"))
      #expect(throws: ObjectError.self) { try transaction.save(Plated.wet(3)) }
      #expect(throws: ObjectError.self) {
        try transaction.save([.wet(3), Plated(id: 4, plate: "C")])
      }
      try transaction.save(Plated(id: 5, plate: "D"))
    }
    #expect(try store.objects(Plated.self).fetch().map(\.id) == [1, 2, 5])
    #expect(try store.storage.verify() == [])
  }

  @Test(.timeLimit(.minutes(60)))
  func `The error of a closure is thrown rather than that of the transaction`() throws {
    struct Own: Error {}
    let ground = try StoreFixture(StoreOptions())
    try ground.store.save(Plated(id: 1, plate: "A"))
    #expect(throws: Own.self) {
      try ground.store.write { transaction in
        try? transaction.save([Plated(id: 2, plate: "B"), .wet(3)])
        throw Own()
      }
    }
    #expect(try ground.store.objects(Plated.self).count() == 1)
  }
}
