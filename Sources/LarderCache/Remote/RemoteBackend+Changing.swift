// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderEngine
internal import Synchronization

extension RemoteBackend {
  // MARK: By version

  func versionedValue(_ key: Key) throws -> VersionedValue<Value> {
    try waiting { try await self.versioned(key).value }
  }

  func versionedValueAsync(_ key: Key) async throws -> VersionedValue<Value> {
    try await versioned(key).value
  }

  /// Reads the server's value of a key.
  private func versioned(
    _ key: Key
  ) async throws -> (value: VersionedValue<Value>, entry: RemoteEntry?) {
    let place = try place("get", key)
    let read = try await copies.awaiting(place) { try await service.read([place.remote]) }
    copies.settle(place)
    guard let entry = read[0], !entry.isAbsent else {
      return (VersionedValue(value: nil, version: .absent), nil)
    }
    let value = try context.decode(entry.payload, codec: entry.codec, of: key)
    return (
      VersionedValue(value: value, version: EntryVersion(commitVersion: entry.version.version)),
      entry
    )
  }

  func write(_ write: ConditionalWrite<Value>, _ key: Key) throws -> Bool {
    try waiting { try await self.write(write, key, takesTurn: false) }
  }

  func writeAsync(_ write: ConditionalWrite<Value>, _ key: Key) async throws -> Bool {
    try await self.write(write, key, takesTurn: true)
  }

  private func write(
    _ write: ConditionalWrite<Value>, _ key: Key, takesTurn: Bool
  ) async throws -> Bool {
    switch write {
    case .set(let value, let attributes, let version):
      return try await replace(key, version, with: prepare(value, key, attributes))
    case .remove(let version):
      return try await replace(key, version, with: nil)
    case .renew(let expiration):
      let change = KeyChange<Value>(operation: "touch") { read in
        guard let old = try read() else { return .unchanged }
        return .stored(old.value, expiration)
      }
      let outcome = try await takesTurn ? changeAsync(change, key) : repeated(change, key)
      return outcome.value != nil
    }
  }

  /// Writes or removes a key on the server if it has a version, and then in the host.
  private func replace(
    _ key: Key, _ version: EntryVersion, with prepared: PreparedWrite?
  ) async throws -> Bool {
    let place = try place("set", key)
    place.noteChange()
    let fence = copies.fence(place)
    let isReplaced: Bool
    do {
      isReplaced = try await copies.awaiting(place) {
        try await replace(place.remote, version, with: prepared?.write)
      }
    } catch {
      place.record.count(.failures)
      await copies.forget([place.store.encoded], after: error)
      throw error
    }
    if let prepared, isReplaced {
      place.record.count(.writes)
      await keep([(prepared, fence)])
    } else {
      // Removed, or the server has another value than the caller has read.
      try await copies.remove([place.store.encoded])
    }
    return isReplaced
  }

  private func replace(
    _ key: RemoteKey, _ version: EntryVersion, with write: RemoteWrite?
  ) async throws -> Bool {
    if try await service.replace(key, ifVersion: version.commitVersion, with: write) { return true }
    // A value whose tag was removed is there, and is no value.
    guard version == .absent, try await service.read([key])[0] == nil,
      let removed = try await service.versions(of: [key])[0]
    else { return false }
    return try await service.replace(key, ifVersion: removed.version, with: write)
  }

  // MARK: By value

  func change(_ change: KeyChange<Value>, _ key: Key) throws -> KeyChange<Value>.Outcome {
    // A caller that blocks its thread waits for no other task: the thread may be one that it needs.
    try waiting { try await self.repeated(change, key) }
  }

  func changeAsync(
    _ change: KeyChange<Value>, _ key: Key
  ) async throws -> KeyChange<Value>.Outcome {
    let place = try place(change.operation, key)
    return try await RemoteTurns.all.run(
      RemotePlace(place, copies.name), in: copies, place, within: context.options.computeTimeout
    ) {
      try await repeated(change, key)
    }
  }

  /// Reads the value, calls the closure, and writes if the value is still the same; repeated until no other
  /// writer came between, or for as long as a computation may be waited for.
  private func repeated(
    _ change: KeyChange<Value>, _ key: Key
  ) async throws -> KeyChange<Value>.Outcome {
    let end = ContinuousClock.now.advanced(by: context.options.computeTimeout)
    while true {
      try Task.checkCancellation()
      let (old, entry) = try await versioned(key)
      let now = tier.now
      let expires =
        entry?.version.lifetime.map { EntryHeader.deadline(of: $0, from: now) }
        ?? EntryHeader.never
      let outcome = try change.body { old.value.map { ($0, expires) } }
      let isDone: Bool
      switch outcome {
      case .unchanged: isDone = true
      case .removed: isDone = try await replace(key, old.version, with: nil)
      case .stored(let value, let expiration):
        let kept: Expiration =
          expires == EntryHeader.never ? .never : .at(millisecondsSince1970: expires)
        isDone = try await replace(
          key, old.version,
          with: prepare(
            value, key, EntryAttributes(expiration ?? kept, tags: entry?.tags ?? [])))
      }
      if isDone { return outcome }
      if ContinuousClock.now >= end {
        throw StoreError(
          .writerStalled, during: change.operation,
          "Other hosts changed \(context.text(of: key)()) between each read and write of this one, for "
            + "\(context.options.computeTimeout). Change the key less often, or from one host.")
      }
      // Two hosts that always meet would never come apart.
      try await BlockingWork.sleep(for: .microseconds(Int.random(in: 0...500)))
    }
  }

  /// Changed by value: the server does not know the type.
  func increment(_ increment: CounterIncrement, _ key: Key) -> CounterIncrement.Outcome? { nil }

  func incrementAsync(
    _ increment: CounterIncrement, _ key: Key
  ) async -> CounterIncrement.Outcome? { nil }

  func beginConditionalFill(
    _ key: Key
  ) throws -> @Sendable (_ value: Value, _ expires: Expiration) throws -> Bool {
    let isThere = try state(key).value != nil
    return { [self] value, expires in
      if isThere { return false }
      return try write(.set(value, EntryAttributes(expires), ifVersion: .absent), key)
    }
  }
}
