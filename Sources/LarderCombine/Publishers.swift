// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderCache
public import LarderObjects

#if canImport(Combine)
  public import Combine
#else
  public import OpenCombine
#endif

// Papyrus and PersistentCacheKit have publishers on their queries and caches: these have their names
// and their types of failure. `publisher()` of a sequence is the same with every error.

extension ObservedValues {
  /// The states as a publisher: the present one first, then the newest whenever the subscriber wants
  /// one and there is one. It fails as the sequence does.
  ///
  /// ```swift
  /// let subscription = store.objects(Car.self).observe().publisher()
  ///   .sink { print("over: \($0)") } receiveValue: { print($0.count) }
  /// ```
  ///
  /// Nothing is buffered: a subscriber that comes back late is given the newest state, once. Values
  /// come on a thread of Swift's pool; use `receive(on:)` to have them elsewhere. Cancelling stops
  /// the observation.
  public func publisher() -> AnyPublisher<Element, any Error> {
    SequencePublisher(values: self) { $0 }.eraseToAnyPublisher()
  }
}

extension ListChanges {
  /// The changes as a publisher; see ``ObservedValues/publisher()``. What happens while the subscriber
  /// wants nothing is one change.
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
  /// The result as it is and as it becomes, in the form `Papyrus` has it: an error is told to the
  /// store's `onError`, and the publisher finishes. `observe().publisher()` fails with it.
  public func publisher() -> AnyPublisher<[Object], Never> {
    let report = report
    return SequencePublisher(values: observe()) { error -> Never? in
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
  /// The value of a key as it is and as it becomes, in the form `PersistentCacheKit` has it: an error
  /// is told to the store's `onError`, and the publisher finishes.
  public func publisher(for key: Key) -> AnyPublisher<Value?, Never> {
    reporting(values(forKey: key))
  }

  /// The changes of a key's value from this call on.
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
  /// The value of a key as it is and as it becomes, in the form `PersistentCacheKit` has it: an error
  /// is told to the store's `onError`, and the publisher finishes.
  public func publisher<Value>(for key: Key<Value>) -> AnyPublisher<Value?, Never> {
    reporting(values(forKey: key))
  }

  /// The changes of a key's value from this call on.
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
