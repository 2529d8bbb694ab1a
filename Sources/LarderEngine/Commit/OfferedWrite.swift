// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

// AN OFFERED WRITE, AS WORDS
//
//   0  when it was offered, in nanoseconds of the monotonic clock
//   1  increment: the bit pattern of the amount
//      put: the length of the value, and above 32 bits its codec
//   2  the expiration, in milliseconds since 1970
//   3  u8 code of the integer type, or zero for a put; u8 whether a new counter is pinned; u8 key tag; u8
//      zero; u16 length of the namespace's name; u16 length of the key
//   4  name, key and value, together at most 960 bytes

/// A write of one key as it is offered to another process: an increment, or a put of a small value without
/// special attributes.
package struct OfferedWrite: Hashable {
  static var headWords: Int { 4 }
  static var textBytes: Int { 960 }
  /// The time after which an offer is not executed: its owner was stopped or killed.
  static var longest: UInt64 { 10_000_000 }

  package let words: [UInt64]

  package init(words: [UInt64]) { self.words = words }

  /// - Returns: `nil` if the request cannot be offered.
  init?(_ request: WriteRequest, now: Int64) {
    guard let space = request.space else { return nil }
    switch request.kind {
    case .increment(let increment, _):
      self.init(increment, key: request.key, space: space, now: now)
    case .put(let content): self.init(content, key: request.key, space: space)
    default: return nil
    }
  }

  /// - Returns: `nil` if the slot has no room for it, or if its expiration slides.
  package init?(
    _ increment: CounterIncrement, key: EncodedKey, space: NamespaceHandle, now: Int64
  ) {
    guard increment.expiration.slidingLifetime == 0,
      let expires = try? increment.expiration.deadline(now: now)
    else { return nil }
    let type = UInt64(increment.type.code) | (increment.isPinned ? 1 << 8 : 0)
    self.init(
      CounterIncrement.IntegerType.pattern(increment.amount), expires, type, key, space, value: [])
  }

  /// - Returns: `nil` if the slot has no room for it, or if it has attributes that are not offered.
  package init?(_ content: EntryContent, key: EncodedKey, space: NamespaceHandle) {
    guard content.isPlain else { return nil }
    self.init(
      UInt64(content.payload.count) | UInt64(content.codec) << 32, content.expires, 0, key, space,
      value: content.payload)
  }

  private init?(
    _ second: UInt64, _ expires: Int64, _ type: UInt64, _ key: EncodedKey,
    _ space: NamespaceHandle, value: [UInt8]
  ) {
    let name = space.nameBytes
    let count = name.count + key.bytes.count + value.count
    guard count <= Self.textBytes else { return nil }
    var words: [UInt64] = []
    words.reserveCapacity(Self.headWords + (count + 7) / 8)
    words.append(Clocks.monotonicNanoseconds())
    words.append(second)
    words.append(UInt64(bitPattern: expires))
    words.append(
      type | UInt64(key.tag) << 16 | UInt64(name.count) << 32 | UInt64(key.bytes.count) << 48)
    var (word, shift) = (UInt64(0), UInt64(0))
    for bytes in [name, key.bytes, value] {
      for byte in bytes {
        word |= UInt64(byte) << shift
        shift += 8
        if shift < 64 { continue }
        words.append(word)
        (word, shift) = (0, 0)
      }
    }
    if shift > 0 { words.append(word) }
    self.words = words
  }

  /// The number of words of an offer with this head; `nil` if no process can have offered it.
  static func count(head: [UInt64]) -> Int? {
    let value = head[3] & 0xFF == 0 ? Int(head[1] & 0xFFFF_FFFF) : 0
    let text = Int(head[3] >> 32 & 0xFFFF) + Int(head[3] >> 48) + value
    return text <= textBytes ? headWords + (text + 7) / 8 : nil
  }

  var isTooOld: Bool { Clocks.monotonicNanoseconds() &- words[0] > Self.longest }

  private var isPut: Bool { words[3] & 0xFF == 0 }

  /// Whether both add to the same counter of the same type.
  func addsToTarget(of other: OfferedWrite) -> Bool { !isPut && words[3...] == other.words[3...] }

  package var increment: CounterIncrement? {
    guard let type = CounterIncrement.IntegerType(code: UInt8(truncatingIfNeeded: words[3])) else {
      return nil
    }
    let expires = Int64(bitPattern: words[2])
    return CounterIncrement(
      type.value(words[1]), type,
      expires == EntryHeader.never ? .never : .at(millisecondsSince1970: expires),
      isPinned: words[3] >> 8 & 0xFF != 0)
  }

  /// Returns the content of a put; `nil` for an increment.
  package func content(for key: EncodedKey) -> EntryContent? {
    guard isPut else { return nil }
    let start = Int(words[3] >> 32 & 0xFFFF) + Int(words[3] >> 48)
    let count = Int(words[1] & 0xFFFF_FFFF)
    return EntryContent(
      key: key, codec: UInt16(truncatingIfNeeded: words[1] >> 32),
      payload: Array(text[start..<start + count]), expires: Int64(bitPattern: words[2]))
  }

  private var text: [UInt8] {
    var text: [UInt8] = []
    text.reserveCapacity(8 * words.count)
    for word in words.dropFirst(Self.headWords) {
      for shift in 0..<UInt64(8) { text.append(UInt8(truncatingIfNeeded: word >> (8 * shift))) }
    }
    return text
  }

  /// The key; `nil` if no process can have offered it.
  package var target: (key: EncodedKey, space: NamespaceHandle)? {
    let text = text
    let (nameCount, keyCount) = (Int(words[3] >> 32 & 0xFFFF), Int(words[3] >> 48))
    guard nameCount + keyCount <= text.count,
      let name = String(validating: text[..<nameCount], as: UTF8.self),
      let space = try? NamespaceHandle(name: name)
    else { return nil }
    let key = EncodedKey(
      tag: UInt8(truncatingIfNeeded: words[3] >> 16),
      bytes: Array(text[nameCount..<nameCount + keyCount]))
    return (key, space)
  }
}
