// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderObjectEngine
internal import LarderSystem
internal import Synchronization

// OBJECTS THAT WERE READ AND NOT CHANGED
//
// A program reads a maker, and later saves a car with it. Another process has changed the maker in between:
// to store the maker with the car would undo that change. A value does not tell where it comes from. So each
// type keeps a hash of the states that this process has read, and a child whose state is one of them is
// linked, not stored. A child that was changed has another state, and a new one has none.
//
// The state is the encoded object. An object that another declaration stored (another layout, other fields)
// is encoded as this program would store it, when it is read. Without a layout that does not show, nor does a
// set, whose order differs between processes: so the first objects of a type, and one of sixteen later, are
// encoded for a comparison, and all after the first one that differs. A state that the transaction itself has
// written does not count as read: it may be rolled back.
//
// A state that the program has read and creates again is taken as read. To store an earlier
// state saves the object itself. The oldest states are forgotten; their objects are stored, as new ones are.

/// The number of hashes of a set.
private let width = 4

/// The states of a type's objects that this process has read.
final class ReadStates: Sendable {
  private struct State: Sendable {
    /// Sets of four hashes; zero if empty.
    var words: ContiguousArray<UInt64> = []
    var used = 0
    /// The place of the next hash in a full set.
    var turn = 0
    var count = 0
    /// Whether an object was stored otherwise than this process encodes it.
    var encodesAnew = false

    func set(of hash: UInt64) -> Int {
      Int(truncatingIfNeeded: hash >> 8) & (words.count / width &- 1) &* width
    }

    mutating func enter(_ hash: UInt64) {
      let first = set(of: hash)
      for position in first..<first + width where words[position] == hash { return }
      for position in first..<first + width where words[position] == 0 {
        words[position] = hash
        used += 1
        return
      }
      turn &+= 1
      words[first + turn & (width - 1)] = hash
    }
  }

  private static var smallest: Int { 1024 }
  private static var largest: Int { 1 << 18 }

  private let state = Mutex(State())

  /// Returns the hash of a state.
  static func hash(_ id: RawSpan, _ object: RawSpan) -> UInt64 {
    let hash = WyHash.hash(object, seed: WyHash.hash(id, seed: 0x6c61_7264_6572))
    return hash == 0 ? 1 : hash
  }

  /// Notes a state.
  ///
  /// - Returns: Whether the object is to be encoded and compared.
  @discardableResult
  func note(_ hash: UInt64) -> Bool {
    state.withLock { state in
      if (state.used + 1) * 2 > state.words.count, state.words.count < Self.largest {
        Self.grow(&state)
      }
      state.enter(hash)
      state.count &+= 1
      return state.encodesAnew || state.count <= 64 || state.count & 15 == 0
    }
  }

  /// Notes how this process encodes an object that it found in another form.
  func noteDifference(_ hash: UInt64) {
    state.withLock { $0.encodesAnew = true }
    note(hash)
  }

  func contains(_ hash: UInt64) -> Bool {
    state.withLock { state in
      if state.words.isEmpty { return false }
      let first = state.set(of: hash)
      return state.words[first..<first + width].contains(hash)
    }
  }

  var isEmpty: Bool { state.withLock { $0.words.isEmpty } }

  private static func grow(_ state: inout State) {
    let old = state.words
    state.words = ContiguousArray(repeating: 0, count: max(old.count * 2, smallest))
    state.used = 0
    for hash in old where hash != 0 { state.enter(hash) }
  }
}

extension ObjectTypeDescriptor {
  /// Returns the number of the layout in which this program stores objects, or `nil`.
  func ownLayout(_ record: ObjectTypeRecord) -> Int? {
    layout.flatMap { record.layouts?.number(of: $0) }
  }

  /// Notes the state of an object that a caller gets.
  ///
  /// - Parameters:
  ///   - bytes: The object as it is stored, or as a map.
  ///   - number: The number of the program's own layout, if `bytes` may be an object with one.
  func noteRead(_ object: Object, id: RawSpan, _ bytes: RawSpan, ownLayout number: Int? = nil) {
    var isOwn = true
    var mayDiffer = layout == nil
    if let layout {
      if let map = StoredField.head(bytes, 0), map.major == 5 {
        isOwn = map.argument == UInt64(layout.names.count)
        mayDiffer = true
      } else {
        isOwn = number != nil && ObjectLayouts.number(in: bytes) == number.map(UInt64.init)
      }
    }
    if isOwn {
      let hash = ReadStates.hash(id, bytes)
      guard reads.note(hash), mayDiffer, let map = try? encode(object, ReferenceCollector()) else {
        return
      }
      let own = map.withRawSpan { ReadStates.hash(id, $0) }
      if own != hash { reads.noteDifference(own) }
    } else if let map = try? encode(object, ReferenceCollector()) {
      _ = map.withRawSpan { reads.note(ReadStates.hash(id, $0)) }
    }
  }

  /// Notes the state of an object that a caller gets.
  func noteRead(_ object: Object, _ stored: StoredObject) {
    stored.id.withRawSpan { id in
      stored.bytes.withRawSpan { noteRead(object, id: id, $0) }
    }
  }

  /// Returns whether a caller got an object in the state in which it would be stored.
  func wasRead(_ write: ObjectWrite, _ record: ObjectTypeRecord) -> Bool {
    if reads.isEmpty { return false }
    func isKnown(_ bytes: [UInt8]) -> Bool {
      write.id.withRawSpan { id in
        bytes.withRawSpan { reads.contains(ReadStates.hash(id, $0)) }
      }
    }
    if isKnown(write.bytes) { return true }
    let other = write.bytes.withRawSpan { bytes in
      write.codec == ObjectLayout.codec
        ? record.layouts?.map(of: bytes) : record.layouts?.packed(bytes)
    }
    return other.map(isKnown) ?? false
  }
}
