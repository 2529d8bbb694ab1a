// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderEngine
internal import LarderObjectEngine

// REPEATED READS
//
// An observer reads in one snapshot, which records the stamp slots of everything it read, and waits
// until one of them is newer than the snapshot's commit version. Then it reads again, and delivers
// the state only if it differs. Any number of commits between two reads are one change.

/// A read of stored data that an observer repeats.
struct Observation<State: Sendable>: Sendable {
  typealias Read =
    @Sendable (borrowing Snapshot, TrackedSnapshot) throws -> State

  let store: ObjectStore
  /// Reads the state in a snapshot; the source records what was read.
  let read: Read
  let isSame: @Sendable (State, State) -> Bool
  /// Returns a stamp slot that covers one key instead of the complete type, or `nil` if there is
  /// none.
  var narrow: (@Sendable (State, ObjectTypeRecord, Generation) -> StampSlot?)?

  init(
    store: ObjectStore, _ read: @escaping Read,
    isSame: @escaping @Sendable (State, State) -> Bool,
    narrow: (@Sendable (State, ObjectTypeRecord, Generation) -> StampSlot?)? = nil
  ) {
    self.store = store
    self.read = read
    self.isSame = isSame
    self.narrow = narrow
  }

  var steps: ObservationIterator<State> { ObservationIterator(observation: self) }
}

/// The iteration of one observer.
struct ObservationIterator<State: Sendable> {
  private struct Seen {
    let state: State
    let slots: [StampSlot]
    let snapshot: ObservedSnapshot
  }

  let observation: Observation<State>
  private var last: Seen?

  init(observation: Observation<State>) { self.observation = observation }

  /// Returns the current state, then each state that differs from the last, or `nil` if the task
  /// was cancelled.
  mutating func next() async throws -> State? {
    while true {
      if Task.isCancelled { return nil }
      if let last {
        let storage = observation.store.storage
        try await storage.openCore("values").change(
          of: last.slots, after: last.snapshot, ObserverConditions { storage.hasClosed })
      }
      if Task.isCancelled { return nil }
      let now = try readState()
      let isSame = last.map { observation.isSame($0.state, now.state) } ?? false
      last = now
      if !isSame { return now.state }
    }
  }

  private func readState() throws -> Seen {
    let core = try observation.store.storage.openCore("values")
    let mark = try core.observationMark()
    return try core.withSnapshot("values") { snapshot in
      let source = TrackedSnapshot(snapshot)
      defer { source.close() }
      let state = try observation.read(snapshot, source)
      var slots = source.slots
      if let narrow = observation.narrow, let record = source.onlyRecord,
        let slot = narrow(state, record, snapshot.generation)
      {
        slots = [.catalog(in: snapshot.generation), slot]
      }
      return Seen(
        state: state, slots: slots,
        snapshot: core.observed(
          snapshot.generation, commitVersion: snapshot.commitVersion, mark: mark))
    }
  }
}
