// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Combine || canImport(Combine)
import Dispatch
import Larder
import LarderCombine
import LarderEngine
import LarderObjects
import LarderTesting
import Synchronization
import Testing

#if canImport(Combine)
import Combine
#else
import OpenCombine
#endif

struct Car: Storable, Equatable {
  let id: String
  var year: Int
}

/// A subscriber with adjustable demand that forwards the values it receives.
final class Demander<Input: Sendable, Failure: Error>: Subscriber, Sendable {
  enum Event: Sendable {
    case value(Input)
    case finished
    case failed(any Error)
  }

  // `@unchecked Sendable`: a subscription may be requested from and cancelled on any thread.
  private struct Held: @unchecked Sendable {
    var subscription: (any Subscription)?
  }

  private let held = Mutex(Held())
  private let events = AsyncStream<Event>.makeStream()

  func receive(subscription: any Subscription) {
    let new = Held(subscription: subscription)
    held.withLock { $0 = new }
  }

  func receive(_ input: Input) -> Subscribers.Demand {
    events.continuation.yield(.value(input))
    return .none
  }

  func receive(completion: Subscribers.Completion<Failure>) {
    switch completion {
    case .finished: events.continuation.yield(.finished)
    case .failure(let error): events.continuation.yield(.failed(error))
    }
  }

  private var subscription: (any Subscription)? { held.withLock { $0 }.subscription }
  func want(_ count: Int) { subscription?.request(.max(count)) }
  func cancel() { subscription?.cancel() }

  func next() async -> Event? {
    var iterator = events.stream.makeAsyncIterator()
    return await iterator.next()
  }

  /// The next event, which must be a value.
  func value() async -> Input? {
    guard case .value(let value) = await next() else { return nil }
    return value
  }
}

@Suite(.timeLimit(.minutes(60))) struct PublisherTests {
  let directory: TemporaryDirectory
  let store: ObjectStore

  init() throws {
    directory = try TemporaryDirectory()
    store = try ObjectStore(at: directory.appending("store"), StoreOptions())
  }

  /// Waits until `count` observers wait in the store.
  private func observers(_ count: Int) async throws {
    try await awaitEventually("\(count) observers") { store.storage.observerCount == count }
  }

  @Test func `A publisher delivers on demand, and only the newest state to a late subscriber`()
    async throws
  {
    let demander = Demander<[Car], any Error>()
    store.objects(Car.self).sorted(by: \.year).observe().publisher().subscribe(demander)
    try await store.save(Car(id: "1", year: 1))
    demander.want(1)
    #expect(await demander.value()?.map(\.year) == [1])
    for year in 2...100 { try await store.save(Car(id: "\(year)", year: year)) }
    #expect(store.storage.observerCount == 0)
    demander.want(2)
    #expect(await demander.value()?.count == 100)
    try await store.save(Car(id: "101", year: 101))
    #expect(await demander.value()?.count == 101)
    demander.cancel()
    try await observers(0)
  }

  @Test func `Cancelling takes the observer out of the store, waiting or not`() async throws {
    let seen = AsyncStream<Int>.makeStream()
    let subscription = store.objects(Car.self).publisher().sink {
      seen.continuation.yield($0.count)
    }
    var counts = seen.stream.makeAsyncIterator()
    #expect(await counts.next() == 0)
    try await observers(1)
    try await store.save(Car(id: "1", year: 1))
    #expect(await counts.next() == 1)
    subscription.cancel()
    try await observers(0)
  }

  @Test func `A queue of Dispatch is a scheduler: values arrive on it`() async throws {
    let queue = DispatchQueue(label: "receiver")
    let key = DispatchSpecificKey<String>()
    queue.setSpecific(key: key, value: "receiver")
    let seen = AsyncStream<String?>.makeStream()
    let subscription = store.objects(Car.self).publisher().receive(on: queue).sink { _ in
      seen.continuation.yield(DispatchQueue.getSpecific(key: key))
    }
    var places = seen.stream.makeAsyncIterator()
    #expect(await places.next() == "receiver")
    try await store.save(Car(id: "1", year: 1))
    #expect(await places.next() == "receiver")
    subscription.cancel()
    // The main queue is one.
    _ = store.objects(Car.self).publisher().receive(on: DispatchQueue.main)
  }

  @Test func `Changes are published, and combined without demand`() async throws {
    let demander = Demander<ListChange<Car>, any Error>()
    store.objects(Car.self).changes.publisher().subscribe(demander)
    demander.want(1)
    #expect(await demander.value()?.isInitial == true)
    for year in 1...20 { try await store.save(Car(id: "\(year)", year: year)) }
    try await store.save(Car(id: "1", year: 50))
    try await store.delete(Car.self, id: "2")
    demander.want(1)
    let change = await demander.value()
    #expect(change?.inserted.count == 19)
    #expect(change?.updated.isEmpty == true && change?.removed.isEmpty == true)
  }

  @Test func `An object's publisher fails when the object is deleted, as in Papyrus`()
    async throws
  {
    try await store.save(Car(id: "1", year: 1))
    let demander = Demander<Car, any Error>()
    store.object(id: "1", of: Car.self).publisher().subscribe(demander)
    demander.want(10)
    #expect(await demander.value()?.year == 1)
    try await store.save(Car(id: "1", year: 2))
    #expect(await demander.value()?.year == 2)
    try await store.delete(Car.self, id: "1")
    guard case .failed(let error) = await demander.next() else {
      Issue.record("it goes on")
      return
    }
    #expect((error as? ObjectError)?.code == .notFound)
  }

  @Test func `A cache's publishers begin with the present value, its updates do not`() async throws
  {
    let cache = PersistentCache<String, Int>(storage: store.storage)
    try await cache.setValue(1, forKey: "k")
    let present = Demander<Int?, Never>()
    let updates = Demander<Int?, Never>()
    cache.publisher(for: "k").subscribe(present)
    cache.updates(for: "k").subscribe(updates)
    try await cache.setValue(2, forKey: "k")
    updates.want(3)
    #expect(await updates.value() == 2)
    present.want(3)
    #expect(await present.value() == 2)
    try await cache.removeValue(forKey: "k")
    #expect(await present.value() == .some(nil))
    #expect(await updates.value() == .some(nil))
    // A closed store is the end.
    store.close()
    guard case .finished = await present.next() else {
      Issue.record("it goes on")
      return
    }
  }

  @Test func `A query's publisher finishes when the store is closed and reports to onError`()
    async throws
  {
    let reported = AsyncStream<String>.makeStream()
    let path = directory.appending("other")
    let options = StoreOptions(onError: { reported.continuation.yield("\($0)") })
    let other = try ObjectStore(at: path, options)
    let demander = Demander<[Car], Never>()
    other.objects(Car.self).publisher().subscribe(demander)
    demander.want(2)
    #expect(await demander.value() == [])
    other.close()
    guard case .finished = await demander.next() else {
      Issue.record("it goes on")
      return
    }
    var texts = reported.stream.makeAsyncIterator()
    #expect(await texts.next()?.contains("closed") == true)
  }
}
#endif
