// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// THE SCAN
//
// Decoding starts with one pass over the bytes that proves the whole input well-formed. Nothing
// after the pass has to expect damaged bytes, and a data item is known by the offset of its head
// alone.
//
// Where an item ends is plain from its head, except for arrays and maps. For these the pass notes
// the extent: head and end of each container inside the outermost, in order of the heads. So any
// item can be skipped without walking through it, and a flat value needs no notes, and no
// allocation, at all.
//
// The pass rejects what RFC 8949 calls not well-formed, and of what it calls invalid: text that is
// not UTF-8, maps with two equal keys, and bytes after the item. It takes every encoding of a
// value, not only the deterministic one: long heads, indefinite lengths, any order of keys.
//
// Hostile input: a claimed length is compared with the bytes that are left before anything is done
// with it, so there are never more notes than bytes. Nesting is limited, and the limit bounds the
// recursion here and in everything that walks the bytes afterwards.

/// The range of an array or a map.
struct CBORContainerRange {
  /// The offset of the head.
  let start: Int
  /// The offset after the last child: that of the break, if the length is indefinite.
  var end: Int
  /// In a map: the key at which the next search starts.
  var cursor: Int
}

/// A syntax error of bytes that should be CBOR.
struct CBORSyntaxError: Error {
  let code: CodecError.Code
  let offset: Int
  let problem: String

  /// The fault as a decoding failure.
  func failure(decoding typeName: String) -> CodecError {
    CodecError(
      code, operation: .decode, typeName: typeName,
      message: "At byte \(offset): \(problem). Remove the entry and store it again.")
  }
}

/// Proves that bytes are one well-formed data item.
struct CBORScanner {
  /// Arrays, maps and tags around an item, at most.
  static let maximumDepth = 128

  private let bytes: [UInt8]
  private let root: Int
  private var extents: [CBORContainerRange] = []

  private init(bytes: [UInt8], root: Int) {
    self.bytes = bytes
    self.root = root
  }

  /// The extents of all containers but the outermost, and the offset of the outermost item after
  /// its tags.
  static func scan(_ bytes: [UInt8]) throws(CBORSyntaxError) -> (
    extents: [CBORContainerRange], root: Int
  ) {
    let input = bytes.span
    var root = 0
    while root < input.count, input[root] >> 5 == 6 {
      root = try argument(input, root).end
    }
    var scanner = CBORScanner(bytes: bytes, root: root)
    let end = try scanner.item(input, 0, depth: 0)
    guard end == input.count else {
      throw CBORSyntaxError(
        code: .malformed, offset: end, problem: "bytes after the end of the value")
    }
    return (scanner.extents, root)
  }

  /// Skips the item at an offset, with its contents; returns the offset after it.
  @inline(__always)
  private mutating func item(
    _ input: Span<UInt8>, _ start: Int, depth: Int
  ) throws(CBORSyntaxError) -> Int {
    guard start < input.count else { throw Self.truncated(start) }
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

  private mutating func rareItem(
    _ input: Span<UInt8>, _ start: Int, depth: Int
  ) throws(CBORSyntaxError) -> Int {
    switch input[start] >> 5 {
    case 0, 1:
      return try Self.argument(input, start).end
    case 2, 3:
      return try string(input, start)
    case 7:
      return try simple(input, start)
    case 6:
      let content = try Self.argument(input, start).end
      guard depth < Self.maximumDepth else { throw Self.tooDeep(start) }
      return try item(input, content, depth: depth + 1)
    default:
      guard depth < Self.maximumDepth else { throw Self.tooDeep(start) }
      return try container(input, start, depth: depth + 1)
    }
  }

  private mutating func container(
    _ input: Span<UInt8>, _ start: Int, depth: Int
  ) throws(CBORSyntaxError) -> Int {
    let isIndefinite = input[start] & 0x1f == 31
    let (count, first) = isIndefinite ? (0, start + 1) : try Self.argument(input, start)
    let number = extents.count
    if start != root { extents.append(CBORContainerRange(start: start, end: first, cursor: first)) }
    let end: Int
    if input[start] >> 5 == 4 {
      end = try elements(input, first, count: isIndefinite ? nil : count, depth: depth)
    } else {
      end = try pairs(input, first, count: isIndefinite ? nil : count, depth: depth)
    }
    if start != root { extents[number].end = end }
    return isIndefinite ? end + 1 : end
  }

  /// The argument of a definite head and the offset after the head.
  @inline(__always)
  static func argument(
    _ input: Span<UInt8>, _ start: Int
  ) throws(CBORSyntaxError) -> (value: UInt64, end: Int) {
    let info = input[start] & 0x1f
    if info < 24 { return (UInt64(info), start + 1) }
    return try longArgument(input, start, info)
  }

  private static func longArgument(
    _ input: Span<UInt8>, _ start: Int, _ info: UInt8
  ) throws(CBORSyntaxError) -> (value: UInt64, end: Int) {
    guard info < 28 else {
      throw CBORSyntaxError(code: .malformed, offset: start, problem: "a reserved head")
    }
    let count = 1 << Int(info - 24)
    guard input.count - start > count else { throw truncated(start) }
    var value: UInt64 = 0
    for index in start + 1...start + count {
      value = value << 8 | UInt64(input[index])
    }
    return (value, start + 1 + count)
  }

  private func string(_ input: Span<UInt8>, _ start: Int) throws(CBORSyntaxError) -> Int {
    let initial = input[start]
    guard initial & 0x1f == 31 else { return try Self.chunk(input, start) }
    // Indefinite: definite chunks of the same kind up to a break, each a separate text.
    var offset = start + 1
    while true {
      guard offset < input.count else { throw Self.truncated(offset) }
      if input[offset] == 0xff { return offset + 1 }
      guard input[offset] >> 5 == initial >> 5, input[offset] & 0x1f != 31 else {
        throw CBORSyntaxError(
          code: .malformed, offset: offset, problem: "a chunk of another kind than its string")
      }
      offset = try Self.chunk(input, offset)
    }
  }

  /// Skips a definite string; returns the offset after it.
  private static func chunk(_ input: Span<UInt8>, _ start: Int) throws(CBORSyntaxError) -> Int {
    let (length, content) = try argument(input, start)
    guard length <= UInt64(input.count - content) else { throw truncated(start) }
    let end = content + Int(length)
    if input[start] >> 5 == 3 { try checkText(input, content..<end) }
    return end
  }

  @inline(__always)
  private static func checkText(
    _ input: Span<UInt8>, _ content: Range<Int>
  ) throws(CBORSyntaxError) {
    guard UTF8Check.isValid(input.extracting(content)) else {
      throw CBORSyntaxError(
        code: .malformed, offset: content.lowerBound, problem: "a text that is not UTF-8")
    }
  }

  private func simple(_ input: Span<UInt8>, _ start: Int) throws(CBORSyntaxError) -> Int {
    let info = input[start] & 0x1f
    if info < 24 { return start + 1 }
    guard info != 31 else {
      throw CBORSyntaxError(
        code: .malformed, offset: start, problem: "a break where a value should be")
    }
    let (value, end) = try Self.argument(input, start)
    if info == 24, value < 32 {
      throw CBORSyntaxError(code: .malformed, offset: start, problem: "a reserved simple value")
    }
    return end
  }

  private mutating func elements(
    _ input: Span<UInt8>, _ first: Int, count: UInt64?, depth: Int
  ) throws(CBORSyntaxError) -> Int {
    var offset = first
    if let count {
      guard count <= UInt64(input.count - first) else { throw Self.truncated(first) }
      for _ in 0..<Int(count) {
        offset = try item(input, offset, depth: depth)
      }
    } else {
      while try !Self.isBreak(input, offset) {
        offset = try item(input, offset, depth: depth)
      }
    }
    return offset
  }

  private mutating func pairs(
    _ input: Span<UInt8>, _ first: Int, count: UInt64?, depth: Int
  ) throws(CBORSyntaxError) -> Int {
    var keys = CBORKeyOrderTracker()
    var offset = first
    if let count {
      guard count <= UInt64(input.count - first) / 2 else { throw Self.truncated(first) }
      for _ in 0..<Int(count) {
        offset = try pair(input, offset, depth: depth, &keys)
      }
    } else {
      while try !Self.isBreak(input, offset) {
        offset = try pair(input, offset, depth: depth, &keys)
      }
    }
    if !keys.areKnownDistinct {
      let document = CBORDocument(partOf: bytes, extents: extents)
      try document.checkKeysAreDistinct(first..<offset, areSimple: keys.areSimple)
    }
    return offset
  }

  @inline(__always)
  private mutating func pair(
    _ input: Span<UInt8>, _ start: Int, depth: Int, _ keys: inout CBORKeyOrderTracker
  ) throws(CBORSyntaxError) -> Int {
    let value = try item(input, start, depth: depth)
    keys.add(input, start, value)
    return try item(input, value, depth: depth)
  }

  private static func isBreak(_ input: Span<UInt8>, _ offset: Int) throws(CBORSyntaxError) -> Bool {
    guard offset < input.count else { throw truncated(offset) }
    return input[offset] == 0xff
  }

  private static func truncated(_ offset: Int) -> CBORSyntaxError {
    CBORSyntaxError(code: .malformed, offset: offset, problem: "the bytes end inside a value")
  }

  private static func tooDeep(_ offset: Int) -> CBORSyntaxError {
    CBORSyntaxError(
      code: .tooDeep, offset: offset, problem: "more than \(maximumDepth) containers in each other")
  }
}
