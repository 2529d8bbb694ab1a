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
    try requireOwn(deque.stored, "push")
    try deque.stored.push(deque.encode(element), in: &self)
  }

  /// Ends a claim and removes its element, together with the other changes of the transaction: the
  /// results of the work are stored exactly once.
  ///
  /// ```swift
  /// try store.write { transaction in
  ///   guard try transaction.complete(claim) else { return }
  ///   try transaction.setValue("done", forKey: 17, in: orders)
  /// }
  /// ```
  ///
  /// - Parameter claim: A claim of a deque of the transaction's store.
  /// - Returns: `false` if the claim had ended: another caller has the element, and nothing is removed.
  /// - Throws: ``/LarderEngine/StoreError``; with ``/LarderEngine/StoreError/Code/invalidOption`` for a
  ///   deque of another store.
  public mutating func complete<Element: Codable & Sendable>(
    _ claim: SharedDeque<Element>.Claim
  ) throws -> Bool {
    try requireOwn(claim.deque, "complete")
    return try claim.deque.complete(claim.claim, in: &self)
  }

  private func requireOwn(_ deque: StoredDeque, _ operation: String) throws {
    guard try deque.store.openCore(operation).generation() === generation else {
      throw StoreError.ofAnotherStore(operation)
    }
  }
}
