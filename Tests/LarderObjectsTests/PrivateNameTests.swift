// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderObjects
import LarderTesting
import Testing

/// The type of its name in `PrivateNameSamples.swift` is another one.
private struct PrivateItem: Storable, Equatable {
  let id: Int
  var name: String
}

private enum Scope {
  struct Inner: Storable, Equatable {
    let id: Int
  }

  /// The text of the default name of another type, but declared.
  struct Named: Storable, Equatable {
    let id: Int
    static let storedName = "LarderObjectsTests.Scope.Inner"
  }
}

private struct Holder: Storable {
  let id: Int
  @HasOne var item: PrivateItem?
  static let storedName = "PrivateHolder"
}

/// A stored type with a private one as its argument.
struct PrivateNameBox<Value: Codable & Sendable>: Storable {
  let id: Int
  var value: Value?
}

@Suite(.timeLimit(.minutes(60))) struct PrivateNameTests {
  private func expectRefusal(_ body: () throws -> Void) {
    let error = #expect(throws: ObjectError.self) { try body() }
    #expect(error?.code == .invalidSchema)
    #expect(error?.message.contains("static let storedName") == true)
  }

  @Test func `A private or local type without a declared name is refused by every operation`()
    throws
  {
    struct Local: Storable { let id: Int }
    let ground = try StoreFixture(StoreOptions())
    let store = ground.store
    #expect(PrivateItem.storedName == OtherPrivateItem.storedName)
    expectRefusal { try store.save(PrivateItem(id: 1, name: "mine")) }
    expectRefusal { try OtherPrivateItem.save(1, in: store) }
    expectRefusal { _ = try OtherPrivateItem.names(in: store) }
    expectRefusal { _ = try OtherPrivateItem.count(in: store) }
    expectRefusal { _ = try store.object(PrivateItem.self, id: 1) }
    expectRefusal { _ = try store.objects(PrivateItem.self).where(\.name == "a").fetch() }
    expectRefusal { _ = try store.read { try $0.object(PrivateItem.self, id: 1) } }
    expectRefusal { try store.deleteAll(PrivateItem.self) }
    expectRefusal { try store.prepare(PrivateItem.self) }
    expectRefusal { try store.save(Local(id: 1)) }
    expectRefusal { try store.save(Scope.Inner(id: 1)) }
    expectRefusal { try store.save(PrivateNameBox<PrivateItem>(id: 1)) }
    expectRefusal {
      try store.save(Holder(id: 1, item: PrivateItem(id: 1, name: "child")))
    }
    #expect(try store.objects(Holder.self).count() == 0)
  }

  @Test func `A private type with a declared name is stored, also under the text of a default one`()
    throws
  {
    let ground = try StoreFixture(StoreOptions())
    #expect(Scope.Named.storedName == Scope.Inner.storedName)
    try ground.store.save(Scope.Named(id: 1))
    #expect(try ground.store.objects(Scope.Named.self).fetch() == [Scope.Named(id: 1)])
    try ground.store.save(PrivateNameBox<Int>(id: 1, value: 2))
    #expect(try ground.store.object(PrivateNameBox<Int>.self, id: 1)?.value == 2)
  }
}
