// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// NESTED CONTAINERS OF ONE FIELD
//
// A type may request a nested container of a field again, for example once in each of several
// functions. Like the encoders of Foundation, this one then continues the same container:
//
//   the field has a nested container    the same child is returned
//   the field has an encoded map        a child begins with its fields, and replaces it; an array
//   or an array                         likewise
//   the field has another value         an error: the value would be lost
//
// A value that is encoded for a field replaces what was there, again as with Foundation.
//
// To find a field, an index of the open map is made when it is first needed, and completed at the
// next request with the fields that were added since. As long as the names come in order, none is
// equal to an earlier one, and there is no index.

/// The fields of an open map by the encoded names.
struct CBORFieldIndex {
  enum Place {
    /// The value begins at this offset.
    case written(Int)
    /// The value is written on its own.
    case detached(CBOREncodingState)
  }

  private var places: [[UInt8]: Place] = [:]
  private var next: Int
  private var nextChild: Int

  init(of frame: CBOREncodingState.Frame) {
    next = frame.start + 1
    nextChild = frame.firstChild
  }

  /// Adds the fields that were written since the last call, and returns the place of one.
  mutating func place(
    of name: [UInt8], in bytes: [UInt8], _ children: [(offset: Int, encoding: CBOREncodingState)]
  ) -> Place? {
    while next < bytes.count {
      let value = CBORFieldSorter.end(of: next, bytes)
      let key = Array(bytes[next..<value])
      // A child's place is empty until the map is closed.
      if nextChild < children.count, children[nextChild].offset == value {
        places[key] = .detached(children[nextChild].encoding)
        nextChild += 1
        next = value
      } else {
        places[key] = .written(value)
        next = CBORFieldSorter.end(of: value, bytes)
      }
    }
    return places[name]
  }
}

extension CBOREncodingState {
  /// The state of a nested container of a field: that of an earlier request, or a new one.
  func nestedField(_ name: String, _ kind: Kind, _ depth: Int) -> CBOREncodingState {
    switch place(of: name, depth) {
    case nil:
      return detachField(name, depth)
    case .detached(let child):
      return child
    case .written(let offset):
      let end = CBORFieldSorter.end(of: offset, bytes)
      let item = Array(bytes[offset..<end])
      let child = detachField(name, depth)
      if !child.adopt(item, as: kind) { noteMisuse(depth) }
      return child
    }
  }

  /// The place of an earlier field of a name in the innermost map.
  private func place(of name: String, _ depth: Int) -> CBORFieldIndex.Place? {
    guard depth == current.depth, current.kind == .map, current.count > 0 else { return nil }
    var key = CBORWriter()
    key.write(text: name)
    if current.inOrder {
      let last = bytes[current.lastKey..<CBORFieldSorter.end(of: current.lastKey, bytes)]
      if last.lexicographicallyPrecedes(key.bytes) { return nil }
    }
    let parts = madeParts()
    var index = parts.indexes.removeValue(forKey: depth) ?? CBORFieldIndex(of: current)
    let place = index.place(of: key.bytes, in: bytes, parts.children)
    parts.indexes[depth] = index
    return place
  }

  /// Begins the container with the contents of one that was encoded; false if that is of another
  /// kind.
  private func adopt(_ item: [UInt8], as kind: Kind) -> Bool {
    guard item[0] >> 5 == (kind == .map ? 5 : 4) else { return false }
    let (count, start, _) = CBORFieldSorter.head(at: 0, item)
    open(kind, rootDepth)
    write { $0.bytes.append(contentsOf: item[start...]) }
    current.count = Int(count)
    guard kind == .map else { return true }
    // Encoded fields are in order, and the last one is compared with the next.
    var offset = 1
    while offset < bytes.count {
      current.lastKey = offset
      offset = CBORFieldSorter.end(of: CBORFieldSorter.end(of: offset, bytes), bytes)
    }
    return true
  }
}
