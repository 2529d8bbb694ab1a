// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// THE INDEX
//
// Decoding starts with one pass over the bytes that proves the whole input well-formed and writes an
// index: one record per data item, in order of appearance, with the offset of its head and the
// number of the first item behind it. So a container's children are found, and skipped, in one step
// each; and nothing after the pass has to expect damaged bytes.
//
// The pass rejects what RFC 8949 calls not well-formed, and of what it calls invalid: text that is
// not UTF-8, maps with two equal keys, and bytes after the item. It takes every encoding of a
// value, not only the deterministic one: long heads, indefinite lengths, any order of keys.
//
// Hostile input: a claimed length is compared with the bytes that are left before anything is done
// with it, so the index never has more records than the input has bytes. Nesting is limited, and
// the limit bounds the recursion here and in everything that walks the index afterwards.

/// A data item of the index.
struct CBORItem {
  /// Where the item's head is.
  var offset: UInt32
  /// The number of the first item that is not part of this one.
  var next: UInt32
  /// In a map: the key at which the next search starts. The rest of the record is never changed.
  var cursor: UInt32
}

/// What is wrong with bytes that should be CBOR.
struct CBORFault: Error {
  let code: CodingFailure.Code
  let offset: Int
  let problem: String

  /// The fault as a decoding failure.
  func failure(decoding typeName: String) -> CodingFailure {
    CodingFailure(
      code, operation: .decode, typeName: typeName,
      message: "At byte \(offset): \(problem). Remove the entry and store it again.")
  }
}

/// Builds the index of one data item that fills the input.
struct CBORScanner {
  /// Arrays, maps and tags around an item, at most.
  static let maximumDepth = 128

  let bytes: [UInt8]
  private(set) var items: [CBORItem] = []

  private init(bytes: [UInt8]) {
    self.bytes = bytes
  }

  /// The index of the input.
  static func scan(_ bytes: [UInt8]) throws(CBORFault) -> [CBORItem] {
    guard bytes.count < UInt32.max else {
      throw CBORFault(code: .tooLarge, offset: 0, problem: "more than 4 GiB of CBOR")
    }
    var scanner = CBORScanner(bytes: bytes)
    scanner.items.reserveCapacity(min(bytes.count / 8 + 8, 1 << 16))
    let input = bytes.span
    let end = try scanner.item(input, 0, depth: 0)
    guard end == input.count else {
      throw CBORFault(code: .malformed, offset: end, problem: "bytes after the end of the value")
    }
    return scanner.items
  }

  /// Adds the item at an offset, with all it contains; returns the offset behind it.
  @inline(__always)
  private mutating func item(
    _ input: Span<UInt8>, _ start: Int, depth: Int
  ) throws(CBORFault) -> Int {
    guard start < input.count else { throw Self.truncated(start) }
    let number = UInt32(truncatingIfNeeded: items.count + 1)
    items.append(
      CBORItem(offset: UInt32(truncatingIfNeeded: start), next: number, cursor: number))
    // The most frequent items, without a call.
    let initial = input[start]
    let end: Int
    switch initial {
    case 0x00...0x17, 0x20...0x37, 0xf4...0xf7: return start + 1
    case 0x40...0x57: end = start + 1 + Int(initial & 0x1f)
    case 0x60...0x77:
      end = start + 1 + Int(initial & 0x1f)
      guard end <= input.count else { throw Self.truncated(start) }
      try Self.checkText(input, start + 1..<end)
      return end
    case 0x18, 0x38: end = start + 2
    case 0x19, 0x39, 0xf9: end = start + 3
    case 0x1a, 0x3a, 0xfa: end = start + 5
    case 0x1b, 0x3b, 0xfb: end = start + 9
    default: return try rareItem(input, start, depth: depth)
    }
    guard end <= input.count else { throw Self.truncated(start) }
    return end
  }

  /// Finishes the item added last.
  private mutating func rareItem(
    _ input: Span<UInt8>, _ start: Int, depth: Int
  ) throws(CBORFault) -> Int {
    let index = items.count - 1
    let initial = input[start]
    let end: Int
    switch initial >> 5 {
    case 0, 1:
      return try Self.argument(input, start).end
    case 2, 3:
      return try string(input, start)
    case 7:
      return try simple(input, start)
    case 6:
      let content = try Self.argument(input, start).end
      guard depth < Self.maximumDepth else { throw Self.tooDeep(start) }
      end = try item(input, content, depth: depth + 1)
    default:
      guard depth < Self.maximumDepth else { throw Self.tooDeep(start) }
      end =
        initial >> 5 == 4
        ? try array(input, start, depth: depth + 1)
        : try map(input, start, index, depth: depth + 1)
    }
    items[index].next = UInt32(truncatingIfNeeded: items.count)
    return end
  }

  /// The argument of a definite head and the offset behind the head.
  @inline(__always)
  static func argument(
    _ input: Span<UInt8>, _ start: Int
  ) throws(CBORFault) -> (value: UInt64, end: Int) {
    let info = input[start] & 0x1f
    if info < 24 { return (UInt64(info), start + 1) }
    return try longArgument(input, start, info)
  }

  private static func longArgument(
    _ input: Span<UInt8>, _ start: Int, _ info: UInt8
  ) throws(CBORFault) -> (value: UInt64, end: Int) {
    guard info < 28 else {
      throw CBORFault(code: .malformed, offset: start, problem: "a reserved head")
    }
    let count = 1 << Int(info - 24)
    guard input.count - start > count else { throw truncated(start) }
    var value: UInt64 = 0
    for index in start + 1...start + count {
      value = value << 8 | UInt64(input[index])
    }
    return (value, start + 1 + count)
  }

  private func string(_ input: Span<UInt8>, _ start: Int) throws(CBORFault) -> Int {
    let initial = input[start]
    guard initial & 0x1f == 31 else { return try Self.chunk(input, start) }
    // Indefinite: definite chunks of the same kind up to a break, each a text of its own.
    var offset = start + 1
    while true {
      guard offset < input.count else { throw Self.truncated(offset) }
      if input[offset] == 0xff { return offset + 1 }
      guard input[offset] >> 5 == initial >> 5, input[offset] & 0x1f != 31 else {
        throw CBORFault(
          code: .malformed, offset: offset, problem: "a chunk of another kind than its string")
      }
      offset = try Self.chunk(input, offset)
    }
  }

  /// A definite string; returns the offset behind it.
  private static func chunk(_ input: Span<UInt8>, _ start: Int) throws(CBORFault) -> Int {
    let (length, content) = try argument(input, start)
    guard length <= UInt64(input.count - content) else { throw truncated(start) }
    let end = content + Int(length)
    if input[start] >> 5 == 3 { try checkText(input, content..<end) }
    return end
  }

  @inline(__always)
  private static func checkText(
    _ input: Span<UInt8>, _ content: Range<Int>
  ) throws(CBORFault) {
    guard UTF8Check.isValid(input.extracting(content)) else {
      throw CBORFault(
        code: .malformed, offset: content.lowerBound, problem: "a text that is not UTF-8")
    }
  }

  private func simple(_ input: Span<UInt8>, _ start: Int) throws(CBORFault) -> Int {
    let info = input[start] & 0x1f
    if info < 24 { return start + 1 }
    guard info != 31 else {
      throw CBORFault(code: .malformed, offset: start, problem: "a break where a value should be")
    }
    let (value, end) = try Self.argument(input, start)
    if info == 24, value < 32 {
      throw CBORFault(code: .malformed, offset: start, problem: "a reserved simple value")
    }
    return end
  }

  private mutating func array(
    _ input: Span<UInt8>, _ start: Int, depth: Int
  ) throws(CBORFault) -> Int {
    if input[start] & 0x1f == 31 {
      var offset = start + 1
      while try !Self.isBreak(input, offset) {
        offset = try item(input, offset, depth: depth)
      }
      return offset + 1
    }
    let (count, content) = try Self.argument(input, start)
    guard count <= UInt64(input.count - content) else { throw Self.truncated(start) }
    var offset = content
    for _ in 0..<Int(count) {
      offset = try item(input, offset, depth: depth)
    }
    return offset
  }

  private mutating func map(
    _ input: Span<UInt8>, _ start: Int, _ index: Int, depth: Int
  ) throws(CBORFault) -> Int {
    var keys = CBORKeyOrder()
    var offset = start + 1
    if input[start] & 0x1f == 31 {
      while try !Self.isBreak(input, offset) {
        offset = try pair(input, offset, depth: depth, &keys)
      }
      offset += 1
    } else {
      let (count, content) = try Self.argument(input, start)
      guard count <= UInt64(input.count - content) / 2 else { throw Self.truncated(start) }
      offset = content
      for _ in 0..<Int(count) {
        offset = try pair(input, offset, depth: depth, &keys)
      }
    }
    if !keys.areKnownDistinct {
      try checkKeysAreDistinct(from: index + 1, areSimple: keys.areSimple)
    }
    return offset
  }

  @inline(__always)
  private mutating func pair(
    _ input: Span<UInt8>, _ start: Int, depth: Int, _ keys: inout CBORKeyOrder
  ) throws(CBORFault) -> Int {
    let value = try item(input, start, depth: depth)
    keys.add(input, start, value)
    return try item(input, value, depth: depth)
  }

  private static func isBreak(_ input: Span<UInt8>, _ offset: Int) throws(CBORFault) -> Bool {
    guard offset < input.count else { throw truncated(offset) }
    return input[offset] == 0xff
  }

  private static func truncated(_ offset: Int) -> CBORFault {
    CBORFault(code: .malformed, offset: offset, problem: "the bytes end inside a value")
  }

  private static func tooDeep(_ offset: Int) -> CBORFault {
    CBORFault(
      code: .tooDeep, offset: offset, problem: "more than \(maximumDepth) containers in each other")
  }
}
