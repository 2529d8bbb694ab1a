// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Combine || canImport(Combine)
public import LarderCache
public import LarderObjects

#if canImport(Combine)
public import Combine
#else
public import OpenCombine
#endif

// Papyrus and PersistentCacheKit declare publishers on their queries and caches. These members have
// the same names and failure types. `publisher()` of a sequence publishes every error.

extension ObservedValues {
  /// Returns a publisher of the states: the current one first, then the newest one whenever the
  /// subscriber has demand and the state has changed. It fails with the error of the sequence.
  ///
  /// ```swift
  /// let subscription = store.objects(Car.self).observe().publisher()
  ///   .sink { print("over: \($0)") } receiveValue: { print($0.count) }
  /// ```
  ///
  /// The publisher buffers no states: a subscriber that had no demand for a time receives the
  /// newest state once. It delivers values on a thread of the cooperative pool; use `receive(on:)`
  /// to change that. Cancelling the subscription ends the observation.
  ///
  /// - Returns: The publisher. Each subscriber is an independent observer.
  public func publisher() -> AnyPublisher<Element, any Error> {
    SequencePublisher(values: self) { $0 }.eraseToAnyPublisher()
  }
}

extension ListChanges {
  /// Returns a publisher of the changes; see ``ObservedValues/publisher()``. Changes without demand
  /// of the subscriber are coalesced into one.
  ///
  /// - Returns: The publisher.
  public func publisher() -> AnyPublisher<ListChange<Object>, any Error> {
    SequencePublisher(values: self) { $0 }.eraseToAnyPublisher()
  }
}

extension CacheValues {
  /// The values as a publisher; see ``LarderObjects/ObservedValues/publisher()``.
  public func publisher() -> AnyPublisher<Value?, any Error> {
    SequencePublisher(values: self) { $0 }.eraseToAnyPublisher()
  }
}

extension Query {
  /// Returns a publisher of the result, in the spelling of Papyrus: the current one first, then the
  /// newest after each change.
  ///
  /// It reports an error to the store's `onError` and finishes. `observe().publisher()` fails with
  /// the error.
  ///
  /// - Returns: The publisher.
  public func publisher() -> AnyPublisher<[Object], Never> {
    let report = report
    return SequencePublisher(values: skippingUnreadable().observe()) { error -> Never? in
      report(error)
      return nil
    }.eraseToAnyPublisher()
  }
}

extension ObjectQuery {
  /// The object as it is and as it becomes, in the form `Papyrus` has it: fails with
  /// ``/LarderObjects/ObjectError/Code/notFound`` when there is none, or none any more.
  public func publisher() -> AnyPublisher<Object, any Error> {
    SequencePublisher(values: present) { $0 }.eraseToAnyPublisher()
  }
}

extension PersistentCache {
  /// Returns a publisher of a key's value, in the spelling of PersistentCacheKit: the current value
  /// first, then the newest after each change. It reports an error to the store's `onError` and
  /// finishes.
  ///
  /// - Parameter key: The key.
  /// - Returns: The publisher; a value is `nil` while the key has none.
  public func publisher(for key: Key) -> AnyPublisher<Value?, Never> {
    reporting(values(forKey: key))
  }

  /// Returns a publisher of the changes of a key's value after this call.
  ///
  /// - Parameter key: The key.
  /// - Returns: The publisher; a value is `nil` if the key was removed or has expired.
  public func updates(for key: Key) -> AnyPublisher<Value?, Never> {
    reporting(updates(forKey: key))
  }

  private func reporting(_ values: CacheValues<Key, Value>) -> AnyPublisher<Value?, Never> {
    let cache = self
    return SequencePublisher(values: values) { error -> Never? in
      cache.report(error)
      return nil
    }.eraseToAnyPublisher()
  }
}

extension MixedCacheValues {
  /// The values as a publisher; see ``LarderObjects/ObservedValues/publisher()``.
  public func publisher() -> AnyPublisher<Value?, any Error> {
    SequencePublisher(values: self) { $0 }.eraseToAnyPublisher()
  }
}

extension MixedPersistentCache {
  /// Returns a publisher of a key's value, in the spelling of PersistentCacheKit: the current value
  /// first, then the newest after each change. It reports an error to the store's `onError` and
  /// finishes.
  ///
  /// - Parameter key: The key.
  /// - Returns: The publisher; a value is `nil` while the key has none.
  public func publisher<Value>(for key: Key<Value>) -> AnyPublisher<Value?, Never> {
    reporting(values(forKey: key))
  }

  /// Returns a publisher of the changes of a key's value after this call.
  ///
  /// - Parameter key: The key.
  /// - Returns: The publisher; a value is `nil` if the key was removed or has expired.
  public func updates<Value>(for key: Key<Value>) -> AnyPublisher<Value?, Never> {
    reporting(updates(forKey: key))
  }

  private func reporting<Value>(_ values: MixedCacheValues<Value>) -> AnyPublisher<Value?, Never> {
    let cache = cache
    return SequencePublisher(values: values) { error -> Never? in
      cache.report(error)
      return nil
    }.eraseToAnyPublisher()
  }
}
#endif
