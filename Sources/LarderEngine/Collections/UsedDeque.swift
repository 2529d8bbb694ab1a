// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
internal import LarderLMDB
internal import LarderSystem

/// The state of a deque that a transaction has used. It is written once, at the end.
struct UsedDeque {
  let space: NamespaceHandle
  var state: DequeState
  var isChanged: Bool
}

/// The content of a place of a deque.
enum StoredElement {
  case found(StoredDeque.Element)
  case missing
  case damaged
}

extension StoreTransaction {
  /// Returns the position of a deque in ``deques``. Reads its state with the first use.
  mutating func dequeState(_ space: NamespaceHandle) throws -> Int {
    if let index = deques.firstIndex(where: { $0.space.name == space.name }) { return index }
    var found: DequeState?
    var isDamaged = false
    do {
      let stored = try value(forKey: StoredDeque.stateKey, in: space)
      found = try StoredDeque.state(stored, in: space)
    } catch let error as StoreError where error.code == .unreadableEntry {
      isDamaged = true
      generation.count(.damagedEntries)
      touch(hash: space.hash(of: StoredDeque.stateKey, in: generation))
    }
    let state = try found ?? remadeDequeState(space)
    deques.append(UsedDeque(space: space, state: state, isChanged: isDamaged))
    return deques.count - 1
  }

  /// Runs a step on a deque.
  ///
  /// - Returns: Its result, and whether it has changed the deque.
  mutating func changeDeque<R>(
    _ space: NamespaceHandle, _ step: StoredDeque.Step<R>
  ) throws -> (R, Bool) {
    let index = try dequeState(space)
    let before = deques[index].state
    var state = before
    let result = try step(&state, &self)
    guard state != before else { return (result, false) }
    deques[index].state = state
    deques[index].isChanged = true
    touch(hash: space.hash(of: StoredDeque.stateKey, in: generation))
    return (result, true)
  }

  /// Writes the states of the deques that this transaction has changed. The pin limit does not apply to
  /// them: in a full deque, elements can still be claimed.
  mutating func writeDeques() throws {
    exceedsPinLimit = true
    defer { exceedsPinLimit = false }
    for index in deques.indices where deques[index].isChanged {
      let content = try EntryContent(
        key: StoredDeque.stateKey, codec: CodecIdentifier.plainBytes.rawValue,
        payload: deques[index].state.bytes, EntryAttributes(isPinned: true), now: now)
      try set(content, forKey: StoredDeque.stateKey, in: deques[index].space)
    }
  }

  /// Returns the state for the elements of a namespace whose state is missing.
  private mutating func remadeDequeState(_ space: NamespaceHandle) throws -> DequeState {
    let number = try number(of: space)
    guard try namespaceRecord(number).entries > 0 else { return DequeState() }
    let epoch = try epoch(number)
    let places = try withSnapshot { snapshot in
      var places: [Int] = []
      var cursor = try Cursor(over: snapshot.generation.entries, in: snapshot.transaction)
      var hasMore = try cursor.moveToFirst()
      while hasMore {
        for item in (try? Record.items(in: cursor.currentValue)) ?? []
        where item.header.namespace == number && item.header.epoch == epoch
          && item.header.keyTag == Int.keyTag.rawValue
        {
          let key = try snapshot.content(
            of: item.header, in: cursor.currentValue, at: item.offset,
            length: item.header.keyLength)
          if let key, let place = Int(keyBytes: key) { places.append(place) }
        }
        hasMore = try cursor.moveToNext()
      }
      return places
    }
    return DequeState(places: places)
  }

  mutating func setElement(
    _ element: StoredDeque.Element, at place: Int, in space: NamespaceHandle
  ) throws {
    let key = EncodedKey(place)
    let content = try EntryContent(
      key: key, codec: element.codec, payload: element.payload, EntryAttributes(isPinned: true),
      now: now)
    try set(content, forKey: key, in: space)
  }

  func element(at place: Int, in space: NamespaceHandle) throws -> StoredElement {
    do {
      guard let value = try value(forKey: EncodedKey(place), in: space) else { return .missing }
      return .found(StoredDeque.Element(codec: value.codec, payload: value.payload))
    } catch let error as StoreError where error.code == .unreadableEntry {
      return .damaged
    }
  }
}
