// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderCache
public import LarderCoding
public import LarderObjects

#if canImport(Combine)
  public import Combine
#else
  public import OpenCombine
#endif

extension StoredValues {
  /// The states as a publisher: the present one first, then the newest whenever the subscriber wants
  /// one and there is one. It fails as the sequence does.
  ///
  /// ```swift
  /// let subscription = store.objects(Car.self).values.publisher()
  ///   .sink { print("over: \($0)") } receiveValue: { print($0.count) }
  /// ```
  ///
  /// Nothing is buffered: a subscriber that comes back late is given the newest state, once.
  public func publisher() -> AnyPublisher<Element, any Error> {
    SequencePublisher(self) { $0 }.eraseToAnyPublisher()
  }
}
