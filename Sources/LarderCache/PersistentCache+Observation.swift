// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

public import LarderCoding
internal import LarderEngine

/// The values of a key, as they become: the present one first, then the newest after each change by
/// any process; `nil` while there is none.
///
/// Values that nobody came to see are left out, equal ones are not repeated (by `==` where the type
/// is `Equatable`, else by what is stored of them), and none is missed for good. A value that
/// expires is `nil` from then on, though nobody writes.
///
/// The sequence ends when the store is closed or the task cancelled. It ends with an error when an
/// entry cannot be read.
public struct CacheValues<Key: CacheKey, Value: Codable & Sendable>: AsyncSequence, Sendable {
  public typealias Element = Value?

  let cache: PersistentCache<Key, Value>
  let key: Key

  /// What was seen before the sequence began; `nil`: nothing.
  var baseline: Seen?

  /// What was seen.
  struct Seen: Sendable {
    let value: Value?
    let expires: Int64
    let place: Place
  }

  /// Where to wait for the next.
  enum Place: Sendable {
    case memory(mark: Int)
    case store(slot: StampSlot, ObservedSnapshot)
  }

  public struct AsyncIterator: AsyncIteratorProtocol {
    private let values: CacheValues
    private var last: Seen?

    init(_ values: CacheValues) {
      self.values = values
      last = values.baseline
    }

    public mutating func next() async throws -> Value?? {
      while true {
        if let last { await values.change(since: last) }
        if Task.isCancelled { return nil }
        let now: Seen
        do {
          now = try values.look()
        } catch let error as StoreError where error.code == .closed {
          return nil
        }
        let isSame = last.map { values.cache.isSame($0.value, now.value) } ?? false
        last = now
        if !isSame { return .some(now.value) }
      }
    }
  }

  public func makeAsyncIterator() -> AsyncIterator { AsyncIterator(self) }

  // MARK: Looking

  func look() throws -> Seen {
    guard let (core, space) = try cache.engine("values") else {
      let mark = cache.memoryWatch.mark
      let loaded = try cache.load(key)
      return Seen(
        value: loaded?.value, expires: loaded?.expires ?? .max, place: .memory(mark: mark))
    }
    // First the snapshot to wait behind, then the value: it can only be newer.
    let mark = try core.observationMark()
    let hashed = EncodedKey(key)
    let (snapshot, slot) = try core.withObjectSnapshot("values") { _, view in
      (
        core.observed(view.generation, label: view.label, mark: mark),
        StampSlot.key(hash: space.hash(of: hashed, in: view.generation))
      )
    }
    let loaded = try cache.load(key)
    return Seen(
      value: loaded?.value, expires: loaded?.expires ?? .max, place: .store(slot: slot, snapshot))
  }

  func change(since seen: Seen) async {
    switch seen.place {
    case .memory(let mark):
      let left = seen.expires == .max ? nil : Swift.max(seen.expires - cache.tier.now, 0)
      await cache.memoryWatch.change(of: key, after: mark, milliseconds: left)
    case .store(let slot, let snapshot):
      guard let storage = cache.storage, let core = try? storage.openCore("values") else { return }
      await core.change(
        of: [slot], after: snapshot,
        ObserverConditions(deadline: seen.expires) { storage.hasClosed })
    }
  }
}

extension PersistentCache {
  /// The value of a key as it is and as it becomes, whichever process changes it.
  ///
  /// ```swift
  /// for try await score in cache.values(forKey: "ada") {
  ///   print(score ?? "none")
  /// }
  /// ```
  ///
  /// In a cache without a store these are the changes by this process. There, a value that goes
  /// because the memory's bounds are reached is not told of.
  public func values(forKey key: Key) -> CacheValues<Key, Value> {
    CacheValues(cache: self, key: key)
  }

  /// The changes of a key's value from this call on, whichever process makes them.
  public func updates(forKey key: Key) -> CacheValues<Key, Value> {
    var values = values(forKey: key)
    values.baseline = try? values.look()
    return values
  }

  func isSame(_ old: Value?, _ new: Value?) -> Bool {
    guard let old, let new else { return old == nil && new == nil }
    func isEqual<Other: Equatable>(_ value: Other) -> Bool { value == new as? Other }
    if let old = old as? any Equatable { return isEqual(old) }
    guard let before = try? StandardCoding.encode(old, codec: options.codec),
      let after = try? StandardCoding.encode(new, codec: options.codec)
    else { return false }
    return before.0 == after.0 && before.1 == after.1
  }
}
