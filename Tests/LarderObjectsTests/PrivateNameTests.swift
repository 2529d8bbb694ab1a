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

@Suite(.timeLimit(.minutes(60))) struct PrivateNameTests {
  private func expectRefusal(_ body: () throws -> Void) {
    let error = #expect(throws: ObjectError.self) { try body() }
    #expect(error?.code == .invalidSchema)
    #expect(error?.message.contains("storedName") == true)
  }

  @Test func `The second private type of a name is refused, in any process of the program`() throws
  {
    let ground = try StoreFixture(StoreOptions())
    try ground.store.save(PrivateItem(id: 1, name: "mine"))
    #expect(PrivateItem.storedName == OtherPrivateItem.storedName)
    let other = try ObjectStore(at: ground.path, StoreOptions())
    for store in [ground.store, other] {
      expectRefusal { try OtherPrivateItem.save(1, in: store) }
      expectRefusal { _ = try OtherPrivateItem.names(in: store) }
      expectRefusal { _ = try OtherPrivateItem.count(in: store) }
      #expect(try store.objects(PrivateItem.self).fetch() == [PrivateItem(id: 1, name: "mine")])
      try store.save(PrivateItem(id: 1, name: "mine"))
    }
  }
}
