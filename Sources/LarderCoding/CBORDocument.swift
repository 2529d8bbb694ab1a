// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if canImport(FoundationEssentials)
  import FoundationEssentials
#else
  import Foundation
#endif

/// Bytes with their index: what all decoders and containers of one `decode` share.
///
/// The scanner has proved the bytes well-formed, so nothing here looks for damage again; every
/// access is bounds-checked all the same. A decoder and its containers belong to one thread, and no
/// access to `items` calls code of the decoded types, so its exclusivity needs no check at run time.
final class CBORDocument {
  let bytes: [UInt8]
  @exclusivity(unchecked) private(set) var items: [CBORItem]
  let userInfo: [CodingUserInfoKey: any Sendable]

  /// The map in which a key was sought last, its end, and where to go on in it.
  private var searchedMap = -1
  private var searchEnd = 0
  private var cursor = 0

  /// Scans the bytes.
  init(scanning bytes: [UInt8], userInfo: [CodingUserInfoKey: any Sendable]) throws(CBORFault) {
    self.bytes = bytes
    self.items = try CBORScanner.scan(bytes)
    self.userInfo = userInfo
  }

  /// Bytes that are still being scanned; only items that are complete may be asked for.
  init(bytes: [UInt8], items: [CBORItem]) {
    self.bytes = bytes
    self.items = items
    self.userInfo = [:]
  }

  // MARK: Items

  /// The first byte of an item.
  @inline(__always)
  func initial(at index: Int) -> UInt8 {
    bytes[Int(items[index].offset)]
  }

  /// The number of the item behind an item.
  @inline(__always)
  func next(after index: Int) -> Int {
    Int(items[index].next)
  }

  /// The item itself, behind any tags.
  @inline(__always)
  func untagged(_ index: Int) -> Int {
    var index = index
    while initial(at: index) >> 5 == 6 { index += 1 }
    return index
  }

  /// `null` or `undefined`.
  @inline(__always)
  func isNull(at index: Int) -> Bool {
    let initial = initial(at: index)
    return initial == 0xf6 || initial == 0xf7
  }

  /// The argument of an item's head.
  @inline(__always)
  func argument(at index: Int) -> UInt64 {
    let offset = Int(items[index].offset)
    let info = bytes[offset] & 0x1f
    if info < 24 { return UInt64(info) }
    return word(after: offset, count: 1 << Int(info - 24))
  }

  /// The big-endian word behind a head's first byte.
  func word(after offset: Int, count: Int) -> UInt64 {
    var word: UInt64 = 0
    for index in offset + 1...offset + count {
      word = word << 8 | UInt64(bytes[index])
    }
    return word
  }

  /// The direct children of an array or a map; of a map, keys and values in turn.
  func children(of index: Int) -> [Int] {
    var children: [Int] = []
    let end = next(after: index)
    var child = index + 1
    while child < end {
      children.append(child)
      child = next(after: child)
    }
    return children
  }

  /// The bytes of a string; chunks are put together.
  @inline(__always)
  func content(at index: Int) -> ArraySlice<UInt8> {
    let offset = Int(items[index].offset)
    let info = bytes[offset] & 0x1f
    if info < 24 { return bytes[offset + 1..<offset + 1 + Int(info)] }
    return longContent(at: offset, info)
  }

  private func longContent(at offset: Int, _ info: UInt8) -> ArraySlice<UInt8> {
    if info != 31 {
      let width = 1 << Int(info - 24)
      let start = offset + 1 + width
      return bytes[start..<start + Int(word(after: offset, count: width))]
    }
    var joined: [UInt8] = []
    var chunk = offset + 1
    while bytes[chunk] != 0xff {
      let chunkInfo = bytes[chunk] & 0x1f
      let part =
        chunkInfo < 24
        ? bytes[chunk + 1..<chunk + 1 + Int(chunkInfo)] : longContent(at: chunk, chunkInfo)
      joined.append(contentsOf: part)
      chunk = part.endIndex
    }
    return joined[...]
  }

  // MARK: Keys

  /// The value of a text key, or -1.
  ///
  /// The search starts behind the value found last: fields asked for in the order in which they are
  /// stored cost one comparison each.
  @inline(__always)
  func find(_ name: String, in map: Int) -> Int {
    if map != searchedMap { turn(to: map) }
    let key = cursor
    if key < searchEnd, isText(name, at: key) {
      let value = next(after: key)
      cursor = next(after: value)
      return value
    }
    return search(name, in: map)
  }

  private func search(_ name: String, in map: Int) -> Int {
    let end = searchEnd
    let first = map + 1
    guard first < end else { return -1 }
    let start = cursor < end ? cursor : first
    var key = start
    repeat {
      let value = next(after: key)
      let after = next(after: value)
      if isText(name, at: key) {
        cursor = after
        return value
      }
      key = after < end ? after : first
    } while key != start
    return -1
  }

  /// Begins or goes on with a search in another map than the last.
  private func turn(to map: Int) {
    if searchedMap >= 0 { items[searchedMap].cursor = UInt32(truncatingIfNeeded: cursor) }
    searchedMap = map
    searchEnd = next(after: map)
    cursor = Int(items[map].cursor)
  }

  /// The value of an integer key, or -1; only maps written by others have such keys.
  func find(_ number: Int, in map: Int) -> Int {
    let end = next(after: map)
    var key = map + 1
    while key < end {
      let value = next(after: key)
      if initial(at: key) >> 5 < 2, let found = try? integer(Int.self, at: key), found == number {
        return value
      }
      key = next(after: value)
    }
    return -1
  }

  @inline(__always)
  private func isText(_ name: String, at key: Int) -> Bool {
    let offset = Int(items[key].offset)
    let utf8 = name.utf8
    let count = utf8.count
    guard count < 24 else { return isLongText(name, at: key) }
    guard bytes[offset] == 0x60 | UInt8(truncatingIfNeeded: count) else {
      // A long head or chunks, for a short text.
      return bytes[offset] >= 0x78 && bytes[offset] <= 0x7f && isLongText(name, at: key)
    }
    var position = offset
    for byte in utf8 {
      position += 1
      if bytes[position] != byte { return false }
    }
    return true
  }

  private func isLongText(_ name: String, at key: Int) -> Bool {
    initial(at: key) >> 5 == 3 && content(at: key).elementsEqual(name.utf8)
  }

  /// A key of a map as a coding key; `nil` if it is neither a text nor an integer, or if the coding
  /// key does not know it.
  func codingKey<Key: CodingKey>(at key: Int) -> Key? {
    switch initial(at: key) >> 5 {
    case 3: return Key(stringValue: String(decoding: content(at: key), as: UTF8.self))
    case 0, 1: return (try? integer(Int.self, at: key)).flatMap { Key(intValue: $0) }
    default: return nil
    }
  }

  // MARK: Paths

  /// The path to an item, found again by walking down to it: it is only needed for errors and for
  /// the few types that ask, so nothing is kept for it while decoding.
  func codingPath(to target: Int) -> [any CodingKey] {
    var path: [any CodingKey] = []
    var index = 0
    descent: while index < target {
      switch initial(at: index) >> 5 {
      case 6:
        index += 1
      case 4:
        for (position, child) in children(of: index).enumerated()
        where target < next(after: child) {
          path.append(CBORKey(intValue: position))
          index = child
          continue descent
        }
        break descent
      case 5:
        let children = children(of: index)
        for position in stride(from: 0, to: children.count, by: 2)
        where target < next(after: children[position + 1]) {
          guard target >= children[position + 1] else { break descent }
          let key: CBORKey? = codingKey(at: children[position])
          path.append(key ?? CBORKey(stringValue: "?"))
          index = children[position + 1]
          continue descent
        }
        break descent
      default:
        break descent
      }
    }
    return path
  }
}

/// A coding key of whatever name.
struct CBORKey: CodingKey {
  let stringValue: String
  let intValue: Int?

  init(stringValue: String) {
    self.stringValue = stringValue
    self.intValue = nil
  }

  init(intValue: Int) {
    self.stringValue = String(intValue)
    self.intValue = intValue
  }

  static let superKey = CBORKey(stringValue: "super")
}
