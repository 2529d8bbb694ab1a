// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderObjectEngine
internal import LarderSystem

// GROUPS BY STORED BYTES
//
// Equal bytes are equal values. Equal values may have several forms (the strings "é" and "e\u{301}",
// the numbers 1 and 1.0), so the bytes only find the group of a value that was read before: each form
// is read once.

/// The groups of the forms of a value.
struct StoredForms {
  private struct Entry {
    let hash: UInt64
    let form: Range<Int>
    let group: Int
  }

  /// Positions in `entries` and one more, zero if a slot is free; at most half of them are in use.
  private var slots: [UInt32] = Array(repeating: 0, count: 64)
  private var entries: [Entry] = []
  private var bytes: [UInt8] = []
  /// Random, against values that are chosen to collide.
  private let seed = UInt64.random(in: .min ... .max)

  /// Calls `make` for the group of a form that was not seen before.
  ///
  /// - Returns: The group of the form, or `nil` if `make` returned none.
  @inline(__always)
  mutating func group(of form: RawSpan, _ make: (RawSpan) -> Int?) -> Int? {
    let hash = WyHash.hash(form, seed: seed)
    var slot = Int(truncatingIfNeeded: hash) & (slots.count - 1)
    while slots[slot] != 0 {
      let entry = entries[Int(slots[slot]) - 1]
      if entry.hash == hash, bytes.withRawSpan({ $0.slice(entry.form)!.equals(form) }) {
        return entry.group
      }
      slot = (slot + 1) & (slots.count - 1)
    }
    guard let group = make(form) else { return nil }
    let start = bytes.count
    bytes.append(form)
    entries.append(Entry(hash: hash, form: start..<bytes.count, group: group))
    slots[slot] = UInt32(entries.count)
    if entries.count * 2 > slots.count { grow() }
    return group
  }

  private mutating func grow() {
    slots = Array(repeating: 0, count: slots.count * 4)
    for (position, entry) in entries.enumerated() {
      var slot = Int(truncatingIfNeeded: entry.hash) & (slots.count - 1)
      while slots[slot] != 0 { slot = (slot + 1) & (slots.count - 1) }
      slots[slot] = UInt32(position + 1)
    }
  }
}

/// The reductions of the groups of a query.
final class GroupReductions<Key: Hashable, Value, Reduction: FieldReduction<Value>> {
  private var groups: [Key: Int] = [:]
  private var reductions: [Reduction] = []
  private let make: () -> Reduction

  init(_ make: @escaping () -> Reduction) { self.make = make }

  /// Returns the number of a key's group.
  func group(of key: Key) -> Int {
    if let known = groups[key] { return known }
    groups[key] = reductions.count
    reductions.append(make())
    return reductions.count - 1
  }

  subscript(group: Int) -> Reduction { reductions[group] }

  /// Adds a value to the group of a key.
  ///
  /// - Parameter value: The value, or `nil` if the reductions count.
  func add(_ key: Key, _ value: Value?) {
    let reduction = reductions[group(of: key)]
    if let value = value ?? (key as? Value) { reduction.add(value) }
  }

  /// The reductions with a value. A group has none if an object has a key, and cannot be decoded.
  var all: [Key: Reduction] { groups.mapValues { reductions[$0] }.filter { !$0.value.isEmpty } }
}

/// A loop over stored objects that passes one field to the group of another.
///
/// It is not generic, because it is called for each object.
final class StoredGrouping {
  private let key: FieldLocator
  private let value: FieldLocator?
  private var forms = StoredForms()
  private var receivers: [FieldReceiver] = []
  private var groupWithoutKey: Int?
  /// Returns the group of a form, or of a missing field; `nil` if the object must be decoded.
  private let group: (RawSpan?) -> (Int, FieldReceiver)?
  /// Adds the value of a missing field; returns whether it has one.
  private let addMissing: (Int) -> Bool

  /// Creates the loop.
  ///
  /// - Parameter value: The field to pass, or `nil` to pass that of the group.
  init(
    key: FieldLocator, value: FieldLocator?, group: @escaping (RawSpan?) -> (Int, FieldReceiver)?,
    addMissing: @escaping (Int) -> Bool
  ) {
    self.key = key
    self.value = value
    self.group = group
    self.addMissing = addMissing
  }

  /// Adds an object.
  ///
  /// - Returns: `false` if it must be decoded.
  func add(_ object: RawSpan) -> Bool {
    let found: Int?
    var field = RawSpan()
    switch key.find(in: object) {
    case .found(let range):
      field = object.slice(range)!
      found = forms.group(of: field) { number(group($0)) }
    case .missing:
      if groupWithoutKey == nil { groupWithoutKey = number(group(nil)) }
      found = groupWithoutKey
    case .unclear: return false
    }
    guard let found else { return false }
    guard let value else { return receivers[found].add(stored: field) }
    switch value.find(in: object) {
    case .found(let range): return receivers[found].add(stored: object.slice(range)!)
    case .missing: return addMissing(found)
    case .unclear: return false
    }
  }

  private func number(_ group: (Int, FieldReceiver)?) -> Int? {
    guard let (number, receiver) = group else { return nil }
    // Groups of decoded objects have no receiver here.
    while receivers.count <= number { receivers.append(receiver) }
    receivers[number] = receiver
    return number
  }
}
