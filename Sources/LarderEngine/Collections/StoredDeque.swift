// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderLMDB
internal import LarderSystem
internal import Synchronization

/// A deque of a store, with elements as they are stored. Format: `DequeState.swift`.
package struct StoredDeque: Sendable {
  /// An element in its stored form.
  package struct Element: Sendable, Equatable {
    package let codec: UInt16
    package let payload: [UInt8]

    package init(codec: UInt16, payload: [UInt8]) {
      self.codec = codec
      self.payload = payload
    }
  }

  /// An element that a caller works on.
  package struct Claimed: Sendable {
    package let element: Element
    package let claim: DequeState.Claim
  }

  /// One of the two ends.
  package enum End: Sendable { case first, last }

  /// A part of the transaction of a batch. It runs no code of the user, and may run again.
  typealias Step<R> = @Sendable (inout DequeState, inout StoreTransaction) throws -> R

  package let store: SharedStore
  let name: String
  let space: Result<NamespaceHandle, StoreError>
  let failedSpace: Result<NamespaceHandle, StoreError>
  let maximumAttempts: Int
  /// Whether these are the failed elements of another deque.
  let isFailed: Bool
  /// The searches of this handle for processes that have ended.
  let checks = PeriodicCheck()
  static let stateKey = EncodedKey("state")

  package init(_ store: SharedStore, name: String, maximumAttempts: Int, isFailed: Bool = false) {
    self.store = store
    self.name = name
    self.maximumAttempts = maximumAttempts
    self.isFailed = isFailed
    let namespaces = ["deque/", "deque-failed/"]
    space = Self.namespace(namespaces[isFailed ? 1 : 0], name)
    failedSpace = Self.namespace(namespaces[1], name)
  }

  /// The name of the namespace, for errors.
  package var namespace: String { (try? space.get().name) ?? name }

  private static func namespace(
    _ prefix: String, _ name: String
  ) -> Result<NamespaceHandle, StoreError> {
    Result { () throws(StoreError) in
      guard (1...250).contains(name.utf8.count) else {
        throw StoreError(
          .invalidNamespace, during: "deque",
          "The name of a deque has 1 to 250 bytes of UTF-8; this one has \(name.utf8.count).")
      }
      return try NamespaceHandle(name: prefix + name)
    }
  }

  // MARK: Steps

  /// Runs a step in the transaction of a batch.
  func run<R: Sendable>(
    _ operation: String, bytes: Int = 0, _ step: @escaping Step<R>
  ) throws -> R {
    let core = try store.openCore(operation)
    let box = StoreCore.ResultBox<R>()
    let request = WriteRequest(
      try alteration(bytes, step, box), space: try space.get(), key: Self.stateKey)
    try core.submit(request)
    return try box.get()
  }

  /// Runs a step in the transaction of a batch, without blocking a thread of Swift's pool.
  func run<R: Sendable>(
    _ operation: String, bytes: Int = 0, _ step: @escaping Step<R>
  ) async throws -> R {
    let core = try store.openCore(operation)
    let box = StoreCore.ResultBox<R>()
    _ = try await core.submitAsync(
      try alteration(bytes, step, box), space: try space.get(), key: Self.stateKey)
    return try box.get()
  }

  private func alteration<R: Sendable>(
    _ bytes: Int, _ step: @escaping Step<R>, _ box: StoreCore.ResultBox<R>
  ) throws -> WriteRequest.Kind {
    let space = try space.get()
    return .alter(bytes: bytes) { transaction in
      do {
        _ = try transaction.dequeState(space)
      } catch let error as StoreError {
        // Nothing was written: the other requests of the batch are committed.
        box.set(.failure(error))
        return false
      }
      let (result, changed) = try transaction.changeDeque(space, step)
      box.set(.success(result))
      return changed
    }
  }

  // MARK: Elements

  /// Returns the step that adds elements at an end.
  func pushing(_ elements: [Element], at end: End) throws -> Step<Void> {
    let space = try space.get()
    return { state, transaction in
      for element in end == .last ? elements : elements.reversed() {
        let place = end == .last ? state.append() : state.prepend()
        try transaction.setElement(element, at: place, in: space)
      }
    }
  }

  /// Adds an element that was taken out of another deque, also if there is no room for new ones.
  package func pushTaken(_ element: Element) throws {
    try run("push", bytes: element.payload.count, pushingTaken(element))
  }

  package func pushTaken(_ element: Element) async throws {
    try await run("push", bytes: element.payload.count, pushingTaken(element))
  }

  private func pushingTaken(_ element: Element) throws -> Step<Void> {
    let push = try pushing([element], at: .last)
    return { state, transaction in
      transaction.exceedsPinLimit = true
      defer { transaction.exceedsPinLimit = false }
      try push(&state, &transaction)
    }
  }

  package func push(_ elements: [Element], at end: End) throws {
    let bytes = elements.reduce(0) { $0 + $1.payload.count }
    try run("push", bytes: bytes, pushing(elements, at: end))
  }

  package func push(_ elements: [Element], at end: End) async throws {
    let bytes = elements.reduce(0) { $0 + $1.payload.count }
    try await run("push", bytes: bytes, pushing(elements, at: end))
  }

  /// Adds an element after all others, in a transaction of the user.
  package func push(_ element: Element, in transaction: inout StoreTransaction) throws {
    _ = try transaction.changeDeque(space.get(), pushing([element], at: .last))
  }

  /// The result of a step that takes an element, and the places of damaged elements before it.
  struct Taken<Result: Sendable>: Sendable {
    var result: Result?
    var damaged: [Int] = []
  }

  /// Returns the step that removes the first or last element that is due.
  private func popping(_ end: End, _ deadOwners: Set<UInt64>) throws -> Step<Taken<Element>> {
    let space = try space.get()
    return { [self] state, transaction in
      try endClaims(of: deadOwners, &state, &transaction)
      var taken = Taken<Element>()
      while taken.result == nil {
        let now = try time(of: state, in: transaction)
        let next = end == .first ? state.takeFirst(now: now)?.place : state.takeLast(now: now)
        guard let place = next else { break }
        switch try transaction.element(at: place, in: space) {
        case .damaged: taken.damaged.append(place)
        case .missing: break
        case .found(let element):
          taken.result = element
          _ = try transaction.unset(EncodedKey(place), in: space)
        }
      }
      return taken
    }
  }

  package func pop(_ end: End) throws -> Element? { try take("pop") { try popping(end, $0) } }

  package func pop(_ end: End) async throws -> Element? {
    try await take("pop") { try popping(end, $0) }
  }

  /// Runs a step that takes an element and ends the claims of processes that have ended; and again if
  /// nothing was due and some have.
  func take<Result: Sendable>(
    _ operation: String, _ step: (_ deadOwners: Set<UInt64>) throws -> Step<Taken<Result>>
  ) throws -> Result? {
    let first = try step(deadOwners(isDue: true))
    if let result = reported(try run(operation, first)) { return result }
    let late = try deadOwners(isDue: false)
    return late.isEmpty ? nil : reported(try run(operation, step(late)))
  }

  func take<Result: Sendable>(
    _ operation: String, _ step: (_ deadOwners: Set<UInt64>) throws -> Step<Taken<Result>>
  ) async throws -> Result? {
    let first = try step(deadOwners(isDue: true))
    if let result = reported(try await run(operation, first)) { return result }
    let late = try deadOwners(isDue: false)
    return late.isEmpty ? nil : reported(try await run(operation, step(late)))
  }

  /// Reports damaged elements, and returns the result. They are in no order any more, and stay stored.
  private func reported<Result>(_ taken: Taken<Result>) -> Result? {
    for place in taken.damaged {
      store.core.report(StoreError.unreadable("element \(place) is damaged", in: name))
    }
    return taken.result
  }

  // MARK: Reading

  /// Returns the state, and the commit version of the snapshot that contains it.
  package func state() throws -> (state: DequeState, commitVersion: UInt64) {
    let space = try space.get()
    return try store.read { snapshot in
      let stored = try snapshot.value(forKey: Self.stateKey, in: space)
      return (try Self.state(stored, in: space) ?? DequeState(), snapshot.commitVersion)
    }
  }

  /// Returns the states of the deque and of its failed elements, in one snapshot.
  package func states() throws -> (state: DequeState, failed: DequeState) {
    let (space, failed) = (try space.get(), try failedSpace.get())
    return try store.read { snapshot in
      func state(_ space: NamespaceHandle) throws -> DequeState {
        try Self.state(snapshot.value(forKey: Self.stateKey, in: space), in: space) ?? DequeState()
      }
      return (try state(space), try state(failed))
    }
  }

  /// Removes all elements and claims, but not the failed elements.
  package func removeAll() throws { try store.openCore("removeAll").clear(space.get()) }

  /// Returns elements that are not claimed, in their order.
  package func elements(limit: Int) throws -> [Element] {
    let space = try space.get()
    return try store.read { snapshot in
      let stored = try snapshot.value(forKey: Self.stateKey, in: space)
      guard let state = try Self.state(stored, in: space) else { return [] }
      var found: [Element] = []
      let inRange = (state.first..<state.end).prefix(max(limit, 0))
      for place in state.returned.map(\.place) + inRange {
        guard found.count < limit else { break }
        if let value = try snapshot.value(forKey: EncodedKey(place), in: space) {
          found.append(Element(codec: value.codec, payload: value.payload))
        }
      }
      return found
    }
  }

  static func state(
    _ stored: StoredValue?, in space: NamespaceHandle
  ) throws(StoreError) -> DequeState? {
    guard let stored else { return nil }
    guard let state = DequeState(bytes: stored.payload) else {
      throw StoreError(
        .newerFormat, during: "deque",
        "The state of the deque \"\(space.name)\" has another version, or another program wrote the "
          + "key \"state\" of this namespace. Update this program, or use other names.")
    }
    return state
  }
}

/// Something that is due once a second.
final class PeriodicCheck: Sendable {
  private let last = Atomic<UInt64>(0)

  /// Returns whether a second has passed since the last `true`.
  func begin() -> Bool {
    let now = Clocks.monotonicNanoseconds()
    let last = last.load(ordering: .relaxed)
    guard now &- last >= 1_000_000_000 else { return false }
    return self.last.compareExchange(
      expected: last, desired: now, ordering: .relaxed
    ).exchanged
  }
}

/// A condition that is examined once a second, and stays true.
final class StickyCheck: Sendable {
  private let isFound = Atomic<Bool>(false)
  private let due = PeriodicCheck()

  func isTrue(_ condition: () -> Bool) -> Bool {
    if !isFound.load(ordering: .relaxed), due.begin(), condition() {
      isFound.store(true, ordering: .relaxed)
    }
    return isFound.load(ordering: .relaxed)
  }
}
