// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderLMDB

// LOOKING AGAIN
//
// An observer looks in one snapshot, which tells it the stamp slots of everything it has seen, and
// waits until one of them is ahead of the snapshot's label. Then it looks again, and says so only if
// what it sees differs. Any number of commits between two looks are one change.

/// Something in the store to be looked at again and again.
struct Observation<State: Sendable>: Sendable {
  typealias Look =
    @Sendable (borrowing ReadTransaction, SnapshotView, TrackedSnapshot) throws -> State

  let store: ObjectStore
  /// Looks at it in a snapshot; the source keeps book of what is read.
  let look: Look
  let isSame: @Sendable (State, State) -> Bool
  /// A slot that tells of one key where its whole type would; `nil`: there is none.
  var narrow: (@Sendable (State, ObjectTypeRecord, Generation) -> StampSlot?)?

  init(
    store: ObjectStore, _ look: @escaping Look,
    isSame: @escaping @Sendable (State, State) -> Bool,
    narrow: (@Sendable (State, ObjectTypeRecord, Generation) -> StampSlot?)? = nil
  ) {
    self.store = store
    self.look = look
    self.isSame = isSame
    self.narrow = narrow
  }

  var steps: ObservationIterator<State> { ObservationIterator(observation: self) }
}

/// One observer's way through the states.
struct ObservationIterator<State: Sendable> {
  private struct Seen {
    let state: State
    let slots: [StampSlot]
    let snapshot: ObservedSnapshot
  }

  let observation: Observation<State>
  private var last: Seen?

  init(observation: Observation<State>) { self.observation = observation }

  /// The present state, then each that differs from the last; `nil`: the task was cancelled.
  mutating func next() async throws -> State? {
    while true {
      if Task.isCancelled { return nil }
      if let last {
        let storage = observation.store.storage
        try await storage.openCore("values").change(
          of: last.slots, after: last.snapshot, ObserverConditions { storage.hasClosed })
      }
      if Task.isCancelled { return nil }
      let now = try look()
      let isSame = last.map { observation.isSame($0.state, now.state) } ?? false
      last = now
      if !isSame { return now.state }
    }
  }

  private func look() throws -> Seen {
    let core = try observation.store.storage.openCore("values")
    let mark = try core.observationMark()
    return try core.withObjectSnapshot("values") { transaction, view in
      let source = TrackedSnapshot(transaction, view)
      defer { source.close() }
      let state = try observation.look(transaction, view, source)
      var slots = source.slots
      if let narrow = observation.narrow, let record = source.onlyRecord,
        let slot = narrow(state, record, view.generation)
      {
        slots = [.catalog(in: view.generation), slot]
      }
      return Seen(
        state: state, slots: slots,
        snapshot: core.observed(view.generation, label: view.label, mark: mark))
    }
  }
}
