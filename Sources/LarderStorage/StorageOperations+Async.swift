// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem
internal import Synchronization

// An update over asynchronous conversions.
//
// The update of the storage below lets nothing come in between, and so must not wait for asynchronous
// work: it may hold a store's writer lock. So the value is read, converted, changed and converted back
// first, and then put in place by an update below, if what is stored there is still what was read. If
// not, all is done again.
//
// That takes values that can be compared. Those that cannot, and those that change each time, are
// converted inside the update below, by the thread that runs it.

extension StorageOperations {
  /// The operations with asynchronous conversions of values.
  func asyncMapValues<Other: Sendable>(
    in transformIn: @escaping @Sendable (Other) async throws -> Value,
    out transformOut: @escaping @Sendable (Value) async throws -> Other
  ) -> StorageOperations<Key, Other> {
    let (read, write) = (read, write)
    var result = StorageOperations<Key, Other>(
      read: .asynchronous { key in
        guard let value = try await read(key) else { return nil }
        return try await transformOut(value)
      },
      write: .asynchronous {
        try await write(
          StorageWrite(key: $0.key, value: transformIn($0.value), expires: $0.expires))
      })
    result.takeKeyOperations(of: self)
    result.entry = entry.map { entry in .asynchronous { try await entry($0)?.map(transformOut) } }
    result.fill = fill.map { fill in
      .asynchronous { key in
        let commit = try await fill(key).commit
        return ConditionalFill(commit: .asynchronous { try await commit($0.map(transformIn)) })
      }
    }
    result.update = update.map { update in
      .asynchronous { [entries] change in
        try await update.converting(change, of: entries, transformIn, transformOut)
      }
    }
    return result
  }
}

extension StorageOperation {
  /// Makes a change of converted values. Eight tries convert before the update below; then the
  /// conversions run inside of it.
  fileprivate func converting<Key, Value, Other: Sendable>(
    _ change: StorageUpdate<Key, Other>,
    of entries: StorageOperation<Key, StorageEntry<Value>?>,
    _ transformIn: @escaping @Sendable (Other) async throws -> Value,
    _ transformOut: @escaping @Sendable (Value) async throws -> Other
  ) async throws -> StorageEntry<Other>?
  where Input == StorageUpdate<Key, Value>, Output == StorageEntry<Value>? {
    for _ in 0..<8 {
      let (stored, other): (StorageEntry<Value>?, StorageEntry<Other>?)
      do {
        stored = try await entries(change.key)
        other = try await stored?.map(transformOut)
      } catch  where change.recover != nil {
        break
      }
      guard stored.map({ isComparable($0.value) }) ?? true else { break }
      var changed = other
      try change.change(&changed)
      let new = try await changed?.map(transformIn)
      let isOther = Flag()
      do {
        _ = try await self(
          StorageUpdate(key: change.key) { entry in
            guard isSame(entry, stored) else {
              isOther.raise()
              throw Changed()
            }
            entry = new
          })
        return changed
      } catch  where isOther.isRaised {
        continue
      }
    }
    return try await withTaskExecutorPreference(BackgroundExecutor.shared) {
      try await self(.converting(change, transformIn, transformOut))?.map(transformOut)
    }
  }
}

/// The error of a stored value that has changed since it was read.
private struct Changed: Error {}

/// Something that was seen.
final class Flag: Sendable {
  private let value = Atomic<Bool>(false)
  var isRaised: Bool { value.load(ordering: .acquiring) }
  func raise() { value.store(true, ordering: .releasing) }
}

private func isComparable<Value>(_ value: Value) -> Bool { value is any Equatable }

private func isSame<Value>(_ one: StorageEntry<Value>?, _ other: StorageEntry<Value>?) -> Bool {
  switch (one, other) {
  case (nil, nil): return true
  case (let one?, let other?):
    guard one.expires == other.expires, let value = one.value as? any Equatable else {
      return false
    }
    return equals(value, other.value)
  default: return false
  }
}

private func equals<Value: Equatable>(_ value: Value, _ other: Any) -> Bool {
  value == other as? Value
}

extension StorageUpdate {
  /// The change below that converts where it runs, the thread waiting for it.
  fileprivate static func converting<Other: Sendable>(
    _ change: StorageUpdate<Key, Other>,
    _ transformIn: @escaping @Sendable (Other) async throws -> Value,
    _ transformOut: @escaping @Sendable (Value) async throws -> Other
  ) -> StorageUpdate {
    let convertIn = StorageOperation<StorageEntry<Other>, StorageEntry<Value>>.asynchronous {
      try await $0.map(transformIn)
    }
    let convertOut = StorageOperation<StorageEntry<Value>, StorageEntry<Other>>.asynchronous {
      try await $0.map(transformOut)
    }
    return StorageUpdate(key: change.key) { entry in
      let stored = entry
      let other = try change.applied { try stored.map { try convertOut.wait($0) } }
      entry = try other.map { try convertIn.wait($0) }
    } recovering: { error in
      guard let recover = change.recover else { throw error }
      return try recover(error).map { try convertIn.wait($0) }
    }
  }
}
