// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if canImport(FoundationEssentials)
import FoundationEssentials
#else
import Foundation
#endif

/// Bytes that were scanned: what all decoders and containers of one `decode` share.
///
/// A data item is an offset, that of its head. The scanner has proved the bytes well-formed, so
/// nothing here checks for damage again; every access is bounds-checked all the same.
final class CBORDocument {
  let bytes: [UInt8]
  let userInfo: [CodingUserInfoKey: any Sendable]
  /// The log of the requested fields, if they are recorded.
  let log: CBORFieldLog?
  private let root: Int
  private var extents: [CBORContainerRange]

  /// The map of the last search for a key, its end, and the offset at which to continue.
  private var searchedMap = -1
  private var searchEnd = 0
  private var cursor = 0
  private var rootCursor: Int

  /// The number of the extent requested last.
  private var lastExtent = 0

  /// The last error whose path was cut short: what it was about, and the path it has.
  var cutPath: (target: Int, text: String)?

  /// Scans the bytes.
  init(
    scanning bytes: [UInt8], userInfo: [CodingUserInfoKey: any Sendable], log: CBORFieldLog? = nil
  ) throws(CBORSyntaxError) {
    let (extents, root) = try CBORScanner.scan(bytes)
    self.bytes = bytes
    self.userInfo = userInfo
    self.log = log
    self.root = root
    self.extents = extents
    rootCursor = root + Self.headLength(bytes[root])
  }

  /// Bytes that are still being scanned; only complete items may be accessed.
  init(partOf bytes: [UInt8], extents: [CBORContainerRange]) {
    self.bytes = bytes
    self.extents = extents
    userInfo = [:]
    log = nil
    root = -1
    rootCursor = 0
  }

  // MARK: Items

  /// The length of a head, from the lowest five bits of its first byte.
  @inline(__always)
  static func headLength(_ initial: UInt8) -> Int {
    switch initial & 0x1f {
    case 24: 2
    case 25: 3
    case 26: 5
    case 27: 9
    default: 1
    }
  }

  /// The offset after an item's head: of a tag, the tagged item; of a container, the first child.
  @inline(__always)
  func inside(_ item: Int) -> Int {
    item + Self.headLength(bytes[item])
  }

  /// The offset after an item.
  @inline(__always)
  func next(after item: Int) -> Int {
    let initial = bytes[item]
    switch initial {
    case 0x00...0x17, 0x20...0x37, 0xe0...0xf7: return item + 1
    case 0x40...0x57, 0x60...0x77: return item + 1 + Int(initial & 0x1f)
    default: return rareNext(after: item)
    }
  }

  private func rareNext(after item: Int) -> Int {
    let initial = bytes[item]
    let isIndefinite = initial & 0x1f == 31
    switch initial >> 5 {
    case 0, 1, 7: return inside(item)
    case 6: return next(after: inside(item))
    case 4, 5: return end(of: item) + (isIndefinite ? 1 : 0)
    default:
      guard isIndefinite else { return inside(item) + Int(argument(at: item)) }
      var chunk = item + 1
      while bytes[chunk] != 0xff { chunk = next(after: chunk) }
      return chunk + 1
    }
  }

  /// The offset after the last child of a container.
  @inline(__always)
  func end(of container: Int) -> Int {
    if container == root {
      return bytes[root] & 0x1f == 31 ? bytes.count - 1 : bytes.count
    }
    return extents[extent(of: container)].end
  }

  /// The number of a container among the extents, which are in order of the heads. Usually it is
  /// the one requested last, or the next.
  @inline(__always)
  private func extent(of container: Int) -> Int {
    let next = lastExtent + 1
    if lastExtent < extents.count, extents[lastExtent].start == container { return lastExtent }
    if next < extents.count, extents[next].start == container {
      lastExtent = next
      return next
    }
    lastExtent = searchExtent(of: container)
    return lastExtent
  }

  private func searchExtent(of container: Int) -> Int {
    var low = 0
    var high = extents.count - 1
    while low < high {
      let middle = (low + high) / 2
      if extents[middle].start < container {
        low = middle + 1
      } else {
        high = middle
      }
    }
    return low
  }

  /// The item itself, after any tags.
  @inline(__always)
  func untagged(_ item: Int) -> Int {
    var item = item
    while bytes[item] >> 5 == 6 { item = inside(item) }
    return item
  }

  /// `null` or `undefined`.
  @inline(__always)
  func isNull(at item: Int) -> Bool {
    bytes[item] & 0xfe == 0xf6
  }

  /// The argument of an item's head.
  @inline(__always)
  func argument(at item: Int) -> UInt64 {
    let initial = bytes[item]
    if initial & 0x1f < 24 { return UInt64(initial & 0x1f) }
    return word(after: item, count: Self.headLength(initial) - 1)
  }

  /// The big-endian word after a head's first byte.
  @inline(__always)
  func word(after offset: Int, count: Int) -> UInt64 {
    var word: UInt64 = 0
    for byte in bytes[offset + 1...offset + count] {
      word = word << 8 | UInt64(byte)
    }
    return word
  }

  /// The direct children of an array or a map; of a map, keys and values alternate.
  func children(of container: Int) -> [Int] {
    var children: [Int] = []
    let end = end(of: container)
    var child = inside(container)
    while child < end {
      children.append(child)
      child = next(after: child)
    }
    return children
  }

  /// The bytes of a string; chunks are put together.
  @inline(__always)
  func content(at item: Int) -> ArraySlice<UInt8> {
    let info = bytes[item] & 0x1f
    if info < 24 { return bytes[item + 1..<item + 1 + Int(info)] }
    return longContent(at: item)
  }

  private func longContent(at item: Int) -> ArraySlice<UInt8> {
    if bytes[item] & 0x1f != 31 {
      let start = inside(item)
      return bytes[start..<start + Int(argument(at: item))]
    }
    var joined: [UInt8] = []
    var chunk = item + 1
    while bytes[chunk] != 0xff {
      joined.append(contentsOf: content(at: chunk))
      chunk = next(after: chunk)
    }
    return joined[...]
  }

  // MARK: Keys

  /// The value of a text key, or -1.
  ///
  /// The search starts after the value found last: fields requested in the order in which they are
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
    let first = inside(map)
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

  /// Begins or continues a search in another map than the last.
  private func turn(to map: Int) {
    // The place in a map is worth keeping if there is something left in it.
    if searchedMap >= 0, cursor < searchEnd {
      if searchedMap == root {
        rootCursor = cursor
      } else {
        // Exchanged rather than changed in place: see CBOREncodingState.swift.
        let number = extent(of: searchedMap)
        var taken: [CBORContainerRange] = []
        swap(&taken, &extents)
        taken[number].cursor = cursor
        swap(&taken, &extents)
      }
    }
    searchedMap = map
    searchEnd = end(of: map)
    cursor = map == root ? rootCursor : extents[extent(of: map)].cursor
  }

  /// The value of an integer key, or -1; only maps written by others have such keys.
  func find(_ number: Int, in map: Int) -> Int {
    let end = end(of: map)
    var key = inside(map)
    while key < end {
      let value = next(after: key)
      if bytes[key] >> 5 < 2, let found = try? integer(Int.self, at: key), found == number {
        return value
      }
      key = next(after: value)
    }
    return -1
  }

  /// Whether a key is this text.
  @inline(__always)
  func isText(_ name: String, at key: Int) -> Bool {
    let utf8 = name.utf8
    let count = utf8.count
    guard count < 24 else { return isLongText(name, at: key) }
    guard bytes[key] == 0x60 | UInt8(truncatingIfNeeded: count) else {
      // A long head or chunks, for a short text.
      return bytes[key] >= 0x78 && bytes[key] <= 0x7f && isLongText(name, at: key)
    }
    var position = key
    for byte in utf8 {
      position += 1
      if bytes[position] != byte { return false }
    }
    return true
  }

  private func isLongText(_ name: String, at key: Int) -> Bool {
    bytes[key] >> 5 == 3 && content(at: key).elementsEqual(name.utf8)
  }

  /// A key of a map as a coding key; `nil` if it is neither a text nor an integer, or if the coding
  /// key type has no such case.
  func codingKey<Key: CodingKey>(at key: Int) -> Key? {
    switch bytes[key] >> 5 {
    case 3: return Key(stringValue: String(decoding: content(at: key), as: UTF8.self))
    case 0, 1: return (try? integer(Int.self, at: key)).flatMap { Key(intValue: $0) }
    default: return nil
    }
  }
}
