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
// linked, not stored. A child that was changed has another state, and a new one has none; the hashes of the
// ids tell these two apart (`ChildConflicts.swift`).
//
// The state is the encoded object. An object that another declaration stored (another layout, other fields)
// is encoded as this program would store it, when it is read. Without a layout that does not show, nor does a
// set, whose order differs between processes: so the first objects of a type, and one of sixteen later, are
// encoded for a comparison, and all after the first one that differs. A state that the transaction itself has
// written does not count as read: it may be rolled back.
//
// Only what a caller gets is noted, and the objects of a query in batches: a query that counts, or reads
// fields, notes nothing, and does not put objects into the memory tier, whose hits are not noted either.
//
// A state that the program has read and creates again is taken as read. To store an earlier
// state saves the object itself. The oldest states are forgotten; their objects are stored, as new ones are.

/// The number of hashes of a set.
private let width = 4

/// The state of an object that is read.
struct ReadState: Sendable {
  /// The comparison of the bytes with those that this program would store.
  enum Form: Sendable {
    /// They are the same.
    case own
    /// They are the same, unless another program stored them or the encoding has no fixed order.
    case uncertain
    /// They are others.
    case other
  }

  /// The hash of the id.
  let id: UInt64
  /// The hash of the id and the bytes.
  let hash: UInt64
  let form: Form

  /// Returns the hash of an id.
  static func hash(_ id: RawSpan) -> UInt64 { nonzero(WyHash.hash(id, seed: 0x6c61_7264_6572)) }

  /// Returns the hash of a state.
  ///
  /// - Parameter id: The hash of the id.
  static func hash(_ object: RawSpan, of id: UInt64) -> UInt64 {
    nonzero(WyHash.hash(object, seed: id))
  }

  private static func nonzero(_ hash: UInt64) -> UInt64 { hash == 0 ? 1 : hash }
}

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

    /// Notes a read object.
    ///
    /// - Returns: Whether the object is to be encoded and compared.
    mutating func note(_ read: ReadState) -> Bool {
      count &+= 1
      if read.form == .other {
        enter(read.id)
        return true
      }
      // The id may have been forgotten or displaced since the state was noted.
      enter(read.hash)
      enter(read.id)
      guard read.form == .uncertain else { return false }
      return encodesAnew || count <= 64 || count & 15 == 0
    }

    /// Enters a hash, unless it is there.
    mutating func enter(_ hash: UInt64) {
      if (used + 1) * 2 > words.count, words.count < ReadStates.largest { grow() }
      put(hash)
    }

    private mutating func put(_ hash: UInt64) {
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

    private mutating func grow() {
      let old = words
      words = ContiguousArray(repeating: 0, count: max(old.count * 2, ReadStates.smallest))
      used = 0
      for hash in old where hash != 0 { put(hash) }
    }

    mutating func remove(_ hash: UInt64) {
      guard !words.isEmpty else { return }
      let first = set(of: hash)
      for position in first..<first + width where words[position] == hash {
        words[position] = 0
        used -= 1
      }
    }
  }

  private static var smallest: Int { 1024 }
  private static var largest: Int { 1 << 19 }

  private let state = Mutex(State())

  /// Notes a read object.
  ///
  /// - Returns: Whether the object is to be encoded and compared.
  func note(_ read: ReadState) -> Bool { state.withLock { $0.note(read) } }

  /// Notes read objects.
  ///
  /// - Returns: The positions of those that are to be encoded and compared.
  func note(_ states: [ReadState]) -> [Int] {
    state.withLock { state in
      var compared: [Int] = []
      for position in states.indices where state.note(states[position]) {
        compared.append(position)
      }
      return compared
    }
  }

  /// Notes how this process encodes an object that it found in another form.
  func noteDifference(_ hash: UInt64, isExpected: Bool) {
    state.withLock { state in
      if !isExpected { state.encodesAnew = true }
      state.enter(hash)
    }
  }

  /// Returns whether a state, or an id, was noted.
  func contains(_ hash: UInt64) -> Bool {
    state.withLock { state in
      if state.words.isEmpty { return false }
      let first = state.set(of: hash)
      return state.words[first..<first + width].contains(hash)
    }
  }

  /// Forgets an id: this program has deleted its object, so that no other has.
  func forget(_ id: UInt64) { state.withLock { $0.remove(id) } }

  /// Forgets everything: this program has deleted all objects.
  func forgetAll() { state.withLock { $0 = State() } }

  var isEmpty: Bool { state.withLock { $0.words.isEmpty } }
}

/// The states of the objects of one query, which are noted in batches.
struct ReadBatch<Object: Storable> {
  private let kind: ObjectTypeDescriptor<Object>
  private var objects: [DecodedObject] = []
  private var states: [ReadState] = []

  init(_ kind: ObjectTypeDescriptor<Object>) { self.kind = kind }

  mutating func add(_ found: FoundObject) {
    guard let state = found.state else { return }
    objects.append(found.decoded)
    states.append(state)
    if states.count == 64 { note() }
  }

  /// Notes the states that were added. Call it before a caller gets the last objects.
  mutating func note() {
    if states.isEmpty { return }
    kind.noteReads(states) { ObjectTypeDescriptor<Object>.object(of: objects[$0]) }
    objects.removeAll(keepingCapacity: true)
    states.removeAll(keepingCapacity: true)
  }
}

extension ObjectTypeDescriptor {
  /// Returns the number of the layout in which this program stores objects, or `nil`.
  func ownLayout(_ record: ObjectTypeRecord) -> Int? {
    layout.flatMap { record.layouts?.number(of: $0) }
  }

  /// Returns the state of an object that is read.
  ///
  /// - Parameters:
  ///   - bytes: The object as it is stored, or as a map.
  ///   - number: The number of the program's own layout, if `bytes` may be an object with one.
  func readState(id: RawSpan, _ bytes: RawSpan, ownLayout number: Int? = nil) -> ReadState {
    var form = ReadState.Form.uncertain
    if let layout {
      if let map = StoredField.head(bytes, 0), map.major == 5 {
        if map.argument != UInt64(layout.names.count) { form = .other }
      } else {
        form =
          number != nil && ObjectLayouts.number(in: bytes) == number.map(UInt64.init)
          ? .own : .other
      }
    }
    let id = ReadState.hash(id)
    return ReadState(id: id, hash: ReadState.hash(bytes, of: id), form: form)
  }

  /// Notes the states of objects that a caller gets.
  ///
  /// - Parameter object: Returns the object of a position in `states`.
  func noteReads(_ states: [ReadState], _ object: (Int) -> Object) {
    for position in reads.note(states) { compare(object(position), states[position]) }
  }

  /// Notes the state of an object that a caller gets.
  ///
  /// - Parameters:
  ///   - bytes: The object as it is stored, or as a map.
  ///   - number: The number of the program's own layout, if `bytes` may be an object with one.
  func noteRead(_ object: Object, id: RawSpan, _ bytes: RawSpan, ownLayout number: Int? = nil) {
    let state = readState(id: id, bytes, ownLayout: number)
    if reads.note(state) { compare(object, state) }
  }

  /// Notes the state of an object that a caller gets.
  func noteRead(_ object: Object, _ stored: StoredObject) {
    let state = readState(stored)
    if reads.note(state) { compare(object, state) }
  }

  /// Notes how this program encodes an object, if that differs from its stored form.
  private func compare(_ object: Object, _ read: ReadState) {
    guard let map = try? encode(object, ReferenceCollector()) else { return }
    let own = map.withRawSpan { ReadState.hash($0, of: read.id) }
    if own != read.hash { reads.noteDifference(own, isExpected: read.form == .other) }
  }

  /// Returns the state of an object that is read.
  func readState(_ stored: StoredObject) -> ReadState {
    stored.id.withRawSpan { id in stored.bytes.withRawSpan { readState(id: id, $0) } }
  }

  /// Returns whether a caller got an object in a state.
  ///
  /// - Parameters:
  ///   - bytes: The object as it is stored, or as a map.
  ///   - codec: The codec of `bytes`.
  func wasRead(_ id: UInt64, _ bytes: [UInt8], codec: UInt16, _ record: ObjectTypeRecord) -> Bool {
    func isKnown(_ bytes: [UInt8]) -> Bool {
      bytes.withRawSpan { reads.contains(ReadState.hash($0, of: id)) }
    }
    if isKnown(bytes) { return true }
    let other = bytes.withRawSpan { bytes in
      codec == ObjectLayout.codec ? record.layouts?.map(of: bytes) : record.layouts?.packed(bytes)
    }
    return other.map(isKnown) ?? false
  }
}
