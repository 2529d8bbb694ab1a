// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine

extension SharedDeque {
  /// Claims the first element that is due, without waiting for one.
  ///
  /// ```swift
  /// if let claim = try jobs.claim(lease: .seconds(60)) {
  ///   print("attempt \(claim.attempt) of \(claim.element)")
  ///   try claim.complete()
  /// }
  /// ```
  ///
  /// - Parameter lease: The time after which the element is given to another caller. A change of the
  ///   machine's clock does not change it. Choose one that the work never needs;
  ///   ``Claim/extend(lease:)`` makes it longer.
  /// - Returns: The claim, or `nil` if no element is due.
  /// - Throws: ``/LarderEngine/StoreError``, with ``/LarderEngine/StoreError/Code/invalidOption`` for a
  ///   lease that is not positive; with ``/LarderEngine/StoreError/Code/unreadableEntry`` for an element
  ///   of another type, which is moved to ``failed``.
  /// - Complexity: O(log *n* + *c*) in the elements, and the claims and released elements; and a system
  ///   call for each process with claims once a second.
  public func claim(lease: Duration) throws -> Claim? {
    try requirePositive(lease)
    guard let claimed = try stored.claim(lease: lease) else { return nil }
    do {
      return try Claim(self, claimed)
    } catch {
      _ = try stored.release(claimed.claim, after: .zero, .hopeless)
      throw error
    }
  }

  /// Claims the first element that is due, and suspends the task until there is one.
  ///
  /// While nothing is due, the process wakes at most once a second.
  ///
  /// - Parameters:
  ///   - lease: The time after which the element is given to another caller.
  ///   - timeout: The longest wait; zero means no wait.
  /// - Returns: The claim, or `nil` if no element was due before the deadline.
  /// - Throws: The errors of the synchronous form; `CancellationError` at once if the task is cancelled
  ///   while it waits.
  public func claim(lease: Duration, timeout: Duration = .zero) async throws -> Claim? {
    try requirePositive(lease)
    let end = stored.deadline(after: timeout)
    while true {
      try Task.checkCancellation()
      if let claimed = try await stored.claim(lease: lease) {
        do {
          return try Claim(self, claimed)
        } catch {
          _ = try await stored.release(claimed.claim, after: .zero, .hopeless)
          throw error
        }
      }
      guard try await stored.waitForElement(until: end) else { return nil }
    }
  }

  /// Returns claims of one element after the other, and waits for elements.
  ///
  /// The sequence ends when the task is cancelled or the store is closed. An element of another type is
  /// moved to ``failed`` and reported to `onError` of the store; the iteration continues.
  ///
  /// - Parameter lease: The time after which an element is given to another caller.
  /// - Returns: A sequence. Each iteration claims other elements, one at a time.
  public func claims(lease: Duration) -> Claims { Claims(deque: self, lease: lease) }

  fileprivate func requirePositive(_ lease: Duration) throws(StoreError) {
    guard lease <= .zero else { return }
    throw StoreError(
      .invalidOption, during: "claim",
      "Invalid option: a lease of \(lease). Pass a time that is greater than zero.")
  }

  /// An element that belongs to its caller until the claim ends.
  ///
  /// Each method is valid in every task of the process. When the claim has ended, because its lease has
  /// passed and another caller has claimed the element, they return `false` and change nothing: undo
  /// what the work has done, or make the work harmless to repeat.
  public struct Claim: Sendable {
    /// The element.
    public let element: Element
    /// The number of this claim of the element, from 1.
    public var attempt: Int { claim.attempt }
    /// A number that is greater for each later claim of the deque: a fencing token, as
    /// ``/LarderEngine/HeldLock/token``. Emptying the deque is as a deletion of the file `locks` is there.
    public var token: UInt64 { claim.number }
    let deque: StoredDeque
    let claim: DequeState.Claim

    fileprivate init(_ deque: SharedDeque, _ claimed: StoredDeque.Claimed) throws {
      element = try deque.decode(claimed.element)
      self.deque = deque.stored
      claim = claimed.claim
    }

    /// Ends the claim and removes the element.
    ///
    /// - Returns: `false` if the claim had ended.
    /// - Throws: ``/LarderEngine/StoreError``; the element stays claimed then.
    @discardableResult
    public func complete() throws -> Bool { try deque.complete(claim) }

    /// Ends the claim and removes the element, without blocking a thread of Swift's pool; see the
    /// synchronous form.
    @discardableResult
    public func complete() async throws -> Bool { try await deque.complete(claim) }

    /// Ends the claim without success. The element returns to its place, or is moved to
    /// ``SharedDeque/failed`` after the last attempt.
    ///
    /// - Parameters:
    ///   - delay: The time in which it is not claimed again.
    ///   - countsAttempt: Whether the claim is one of the attempts. Pass `false` if the work was not
    ///     tried, for example because the process shuts down.
    /// - Returns: `false` if the claim had ended.
    /// - Throws: ``/LarderEngine/StoreError``; the element stays claimed then.
    @discardableResult
    public func release(
      after delay: Duration = .zero, countsAttempt: Bool = true
    ) throws -> Bool {
      try deque.release(claim, after: delay, countsAttempt ? .failed : .unused)
    }

    /// Ends the claim without success, without blocking a thread of Swift's pool; see the synchronous
    /// form.
    @discardableResult
    public func release(
      after delay: Duration = .zero, countsAttempt: Bool = true
    ) async throws -> Bool {
      try await deque.release(claim, after: delay, countsAttempt ? .failed : .unused)
    }

    /// Ends the claim and moves the element to ``SharedDeque/failed``: no further attempt can succeed. An
    /// element of `failed` stays there, and is not claimed again for a minute.
    ///
    /// - Returns: `false` if the claim had ended.
    /// - Throws: ``/LarderEngine/StoreError``; the element stays claimed then.
    @discardableResult
    public func fail() throws -> Bool { try deque.release(claim, after: .zero, .hopeless) }

    /// Ends the claim and moves the element to ``SharedDeque/failed``, without blocking a thread of
    /// Swift's pool; see the synchronous form.
    @discardableResult
    public func fail() async throws -> Bool {
      try await deque.release(claim, after: .zero, .hopeless)
    }

    /// Begins a new lease now.
    ///
    /// - Returns: `false` if the claim had ended.
    /// - Throws: ``/LarderEngine/StoreError``; a lease that is not positive ends at once.
    @discardableResult
    public func extend(lease: Duration) throws -> Bool { try deque.extend(claim, lease: lease) }

    /// Begins a new lease now, without blocking a thread of Swift's pool; see the synchronous form.
    @discardableResult
    public func extend(lease: Duration) async throws -> Bool {
      try await deque.extend(claim, lease: lease)
    }
  }

  /// The claims of a deque; see ``claims(lease:)``.
  public struct Claims: AsyncSequence, Sendable {
    let deque: SharedDeque
    let lease: Duration

    /// Begins an iteration.
    public func makeAsyncIterator() -> Iterator { Iterator(deque: deque, lease: lease) }

    /// An iterator that waits for the next element.
    public struct Iterator: AsyncIteratorProtocol {
      let deque: SharedDeque
      let lease: Duration

      /// Claims the next element, and waits until there is one.
      ///
      /// - Returns: `nil` when the task is cancelled or the store is closed.
      /// - Throws: ``/LarderEngine/StoreError``.
      public mutating func next() async throws -> Claim? {
        try deque.requirePositive(lease)
        let stored = deque.stored
        while !Task.isCancelled, !stored.store.hasClosed {
          do {
            guard let claimed = try await stored.claim(lease: lease) else {
              _ = try await stored.waitForElement(until: .max)
              continue
            }
            do {
              return try Claim(deque, claimed)
            } catch {
              stored.store.core.report(error)
              _ = try await stored.release(claimed.claim, after: .zero, .hopeless)
            }
          } catch let error as StoreError where error.code == .closed {
            return nil
          }
        }
        return nil
      }
    }
  }
}
