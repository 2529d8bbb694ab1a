// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderEngine
import LarderObjects
import LarderTesting
import Testing

@Suite struct ObservationTests {
  @Test(.timeLimit(.minutes(60)))
  func `A query's values begin with the present and follow every change`() async throws {
    let ground = try StoreFixture(StoreOptions())
    let other = try ObjectStore(at: ground.path, StoreOptions())
    var iterator = ground.store.objects(Car.self).where(\.year > 0).observe().makeAsyncIterator()
    #expect(try await iterator.next() == [])
    let car = Car(id: "1", model: "m", year: 1)
    try await other.save(car)
    #expect(try await iterator.next() == [car])
    // Changes outside the query, and saves without a change, are not delivered.
    try await other.save(Car(id: "2", model: "m", year: -1))
    try await other.save(car)
    try await other.save(Car(id: "3", model: "m", year: 3))
    #expect(try await iterator.next()?.map(\.id) == ["1", "3"])
    try await other.deleteAll(Car.self)
    #expect(try await iterator.next() == [])
  }

  @Test(.timeLimit(.minutes(60)))
  func `An object's values report its creation, its changes and its deletion`() async throws {
    let ground = try StoreFixture(StoreOptions())
    var iterator = ground.store.values(of: Car.self, id: "1").makeAsyncIterator()
    #expect(try await iterator.next() == .some(nil))
    try await ground.store.save(Car(id: "1", model: "m", year: 1))
    #expect(try await iterator.next()??.year == 1)
    try await ground.store.save(Car(id: "1", model: "m", year: 2))
    #expect(try await iterator.next()??.year == 2)
    try await ground.store.delete(Car.self, id: "1")
    #expect(try await iterator.next() == .some(nil))
  }

  @Test(.timeLimit(.minutes(60)))
  func `Cancelling ends a wait, and closing ends it with an error`() async throws {
    let ground = try StoreFixture(StoreOptions())
    let store = ground.store
    let seen = AsyncStream<Int>.makeStream()
    let task = Task {
      for try await cars in store.objects(Car.self).observe() {
        seen.continuation.yield(cars.count)
      }
      return true
    }
    var counts = seen.stream.makeAsyncIterator()
    #expect(await counts.next() == 0)
    task.cancel()
    #expect(try await task.value)
    let other = Task {
      for try await cars in store.objects(Car.self).observe() {
        seen.continuation.yield(cars.count)
      }
    }
    #expect(await counts.next() == 0)
    store.close()
    await #expect(throws: StoreError.self) { try await other.value }
  }
}
