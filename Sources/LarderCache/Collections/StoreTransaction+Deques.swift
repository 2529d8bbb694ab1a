// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderEngine

extension StoreTransaction {
  /// Adds an element to a deque, together with the other changes of the transaction.
  ///
  /// ```swift
  /// try store.write { transaction in
  ///   try transaction.setValue("paid", forKey: 17, in: orders)
  ///   try transaction.push("receipt of 17", to: mails)
  /// }
  /// ```
  ///
  /// - Parameters:
  ///   - element: The element.
  ///   - deque: A deque of the transaction's store.
  /// - Throws: ``/LarderEngine/StoreError``, as ``SharedDeque/push(_:)``; with
  ///   ``/LarderEngine/StoreError/Code/invalidOption`` for a deque of another store.
  public mutating func push<Element: Codable & Sendable>(
    _ element: Element, to deque: SharedDeque<Element>
  ) throws {
    guard try deque.stored.store.openCore("push").generation() === generation else {
      throw StoreError.ofAnotherStore("push")
    }
    try deque.stored.push(deque.encode(element), in: &self)
  }
}
