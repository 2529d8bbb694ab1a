// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderCoding
public import LarderEngine

/// A queue or stack with a name, which all processes of the machine share.
///
/// ```swift
/// let store = try SharedStore(at: "~/.cache/myapp")
/// let jobs = SharedDeque<String>(storage: store, name: "thumbnails")
/// try jobs.push("a.png")
///
/// for try await claim in jobs.claims(lease: .seconds(60)) {
///   print("making a thumbnail of", claim.element)
///   try await claim.complete()
/// }
/// ```
///
/// Each element is popped, or claimed, by one caller on the machine. A popped element is gone. A claimed
/// element belongs to its caller until it completes the claim; it returns to its place if the caller
/// releases it, if the lease has ended, or within about a second if the process ends, also by `kill -9`.
/// So each claimed element is processed at least once, and twice only after such an end. After
/// ``maximumAttempts`` claims without success it is moved to ``failed``.
///
/// Elements are in the order in which they were pushed. Every method is committed when it returns, and
/// every process sees it then. What survives a crash of the machine is what the durability of the store
/// keeps: a `.cache` begins empty, with `.durable` nothing is lost.
///
/// The elements are pinned entries of the namespace `deque/` and the name: they are never evicted, count
/// against the budget of the store, and can have at most half of it.
public struct SharedDeque<Element: Codable & Sendable>: Sendable {
  let stored: StoredDeque
  private let codec: any ValueCodec
  /// The name.
  public let name: String
  /// The number of claims without success after which an element is moved to ``failed``.
  public let maximumAttempts: Int

  /// Creates a handle of the deque with a name. Elements of another type that are stored in it are
  /// errors of the methods that read them.
  ///
  /// - Parameters:
  ///   - storage: The store.
  ///   - name: 1 to 250 bytes of UTF-8, compared as bytes. Another length is an error of each use.
  ///   - maximumAttempts: The number of claims without success after which an element is moved to
  ///     ``failed``, by the process that notices it; at least one.
  ///   - codec: The codec of new elements.
  public init(
    storage: SharedStore, name: String, maximumAttempts: Int = 5,
    codec: any ValueCodec = CBORCodec()
  ) {
    self.init(storage, name, maximumAttempts, codec, isFailed: false)
  }

  private init(
    _ storage: SharedStore, _ name: String, _ maximumAttempts: Int, _ codec: any ValueCodec,
    isFailed: Bool
  ) {
    self.name = name
    self.maximumAttempts = max(maximumAttempts, 1)
    self.codec = codec
    stored = StoredDeque(
      storage, name: name, maximumAttempts: self.maximumAttempts, isFailed: isFailed)
  }

  /// The elements whose claims have all ended without success, the oldest first. An element of `failed` is
  /// not moved by claims of it, however many fail.
  public var failed: SharedDeque {
    SharedDeque(stored.store, name, Int.max, codec, isFailed: true)
  }

  // MARK: Push

  /// Adds an element after all others.
  ///
  /// - Throws: ``/LarderEngine/StoreError``; with ``/LarderEngine/StoreError/Code/pinLimitReached`` if
  ///   the store has no room for more elements. Or the error of the element's `encode(to:)`.
  /// - Complexity: O(log *n* + *c*) in the elements, and the claims and released elements. Calls of
  ///   several threads and tasks are committed together.
  public func push(_ element: Element) throws { try push(contentsOf: [element]) }

  /// Adds an element after all others, without blocking a thread of Swift's pool; see the synchronous
  /// form.
  public func push(_ element: Element) async throws { try await push(contentsOf: [element]) }

  /// Adds elements after all others, in one transaction: other processes see all of them or none.
  ///
  /// - Throws: ``/LarderEngine/StoreError``, as ``push(_:)``; then none is added.
  public func push(contentsOf elements: some Sequence<Element>) throws {
    try stored.push(elements.map(encode), at: .last)
  }

  /// Adds elements after all others, without blocking a thread of Swift's pool; see the synchronous form.
  public func push(contentsOf elements: some Sequence<Element>) async throws {
    try await stored.push(elements.map(encode), at: .last)
  }

  /// Adds an element before all others.
  ///
  /// - Throws: ``/LarderEngine/StoreError``, as ``push(_:)``.
  /// - Complexity: As ``push(_:)``, and O(*f*) in the elements that were pushed so while others before
  ///   them were claimed.
  public func pushFirst(_ element: Element) throws {
    try stored.push([encode(element)], at: .first)
  }

  /// Adds an element before all others, without blocking a thread of Swift's pool; see the synchronous
  /// form.
  public func pushFirst(_ element: Element) async throws {
    try await stored.push([encode(element)], at: .first)
  }

  // MARK: Pop

  /// Removes the first element that is not claimed.
  ///
  /// - Returns: The element, or `nil` if there is none. No other caller gets it.
  /// - Throws: ``/LarderEngine/StoreError``; with ``/LarderEngine/StoreError/Code/unreadableEntry`` for
  ///   an element of another type, which is pushed to ``failed`` (one of `failed` itself to its end).
  /// - Complexity: O(log *n* + *c*) in the elements, and the claims and released elements.
  public func popFirst() throws -> Element? { try stored.pop(.first).map(decodePopped) }

  /// Removes the first element that is not claimed, without blocking a thread of Swift's pool; see the
  /// synchronous form.
  public func popFirst() async throws -> Element? { try await decodedPop(.first) }

  /// Removes the last element that is not claimed; otherwise as ``popFirst()``.
  public func popLast() throws -> Element? { try stored.pop(.last).map(decodePopped) }

  /// Removes the last element that is not claimed, without blocking a thread of Swift's pool; otherwise
  /// as ``popFirst()``.
  public func popLast() async throws -> Element? { try await decodedPop(.last) }

  // MARK: Inspection

  /// Returns the number of elements that are not claimed, including those that are not due yet.
  ///
  /// - Throws: ``/LarderEngine/StoreError``.
  /// - Complexity: O(log *n* + *c*) in the elements, and the claims and released elements.
  public func count() throws -> Int { try stored.state().state.waitingCount }

  /// The numbers of elements of a deque, at one time.
  public struct Status: Sendable, Hashable {
    /// The elements that are not claimed, including those that are not due yet.
    public let waiting: Int
    /// The elements that are claimed. One whose process has ended counts until the next claim.
    public let claimed: Int
    /// The elements whose claims have all ended without success.
    public let failed: Int

    package init(waiting: Int, claimed: Int, failed: Int) {
      self.waiting = waiting
      self.claimed = claimed
      self.failed = failed
    }
  }

  /// Returns the numbers of waiting, claimed and failed elements, from one snapshot.
  ///
  /// - Throws: ``/LarderEngine/StoreError``.
  public func status() throws -> Status {
    let (state, failed) = try stored.states()
    return Status(
      waiting: state.waitingCount, claimed: state.claims.count, failed: failed.waitingCount)
  }

  /// Returns the first elements that are not claimed, and leaves them. Elements of another type are left
  /// out, and reported to `onError` of the store.
  ///
  /// - Parameter limit: The most elements; by default 100.
  /// - Throws: ``/LarderEngine/StoreError``.
  public func elements(limit: Int = 100) throws -> [Element] {
    try stored.elements(limit: limit).compactMap { element in
      do {
        return try decode(element)
      } catch {
        stored.store.core.report(error)
        return nil
      }
    }
  }

  // MARK: All elements

  /// Moves all elements of ``failed`` to the end of the deque, in one transaction. Each has all attempts
  /// again.
  ///
  /// - Returns: The number of moved elements.
  /// - Throws: ``/LarderEngine/StoreError``; then none is moved.
  /// - Complexity: O(*f* log *n*) in the failed elements.
  @discardableResult
  public func retryFailed() throws -> Int { try stored.retryFailed() }

  /// Moves all elements of ``failed`` to the end of the deque, without blocking a thread of Swift's pool;
  /// see the synchronous form.
  @discardableResult
  public func retryFailed() async throws -> Int { try await stored.retryFailed() }

  /// Removes all elements and ends all claims. Elements of ``failed`` stay.
  ///
  /// - Throws: ``/LarderEngine/StoreError``.
  public func removeAll() throws { try stored.removeAll() }

  /// Removes all elements and ends all claims, without blocking a thread of Swift's pool; see the
  /// synchronous form.
  public func removeAll() async throws { try await BlockingWork.run { try self.removeAll() } }

  // MARK: Coding

  func encode(_ element: Element) throws -> StoredDeque.Element {
    let (codec, payload) = try StandardCoding.encode(element, codec: codec)
    return StoredDeque.Element(codec: codec.rawValue, payload: payload)
  }

  func decode(_ element: StoredDeque.Element) throws -> Element {
    do {
      return try StandardCoding.decode(
        Element.self, identifier: CodecIdentifier(rawValue: element.codec), bytes: element.payload,
        codec: codec)
    } catch {
      throw StoreError(
        .unreadableEntry, during: "decode", path: stored.store.path,
        "An element of the deque \"\(name)\" cannot be read as \(Element.self). It is one of the failed "
          + "elements, unless it was only listed; `larder queue list --failed` shows it, and "
          + "retryFailed() tries it again. The error: \(error)")
    }
  }

  /// Decodes an element that was removed. One of another type is not lost.
  private func decodePopped(_ element: StoredDeque.Element) throws -> Element {
    do {
      return try decode(element)
    } catch {
      try failed.stored.pushTaken(element)
      throw error
    }
  }

  private func decodedPop(_ end: StoredDeque.End) async throws -> Element? {
    guard let element = try await stored.pop(end) else { return nil }
    do {
      return try decode(element)
    } catch {
      try await failed.stored.pushTaken(element)
      throw error
    }
  }
}
