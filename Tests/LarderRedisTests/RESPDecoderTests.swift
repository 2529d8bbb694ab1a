// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Redis && Tools
import LarderRedis
import LarderTesting
import NIOCore
import Testing

@Suite(.timeLimit(.minutes(60))) struct RESPDecoderTests {
  typealias Message = RESPDecoder.Message

  /// Decodes bytes that come in parts.
  private static func decode(
    _ bytes: [UInt8], in parts: [Int] = [], _ limits: RESPDecoder.Limits = .init()
  ) throws -> [Message] {
    var decoder = RESPDecoder(limits: limits)
    var buffer = ByteBuffer()
    var messages: [Message] = []
    var rest = bytes[...]
    for size in parts + [bytes.count] {
      buffer.writeBytes(rest.prefix(size))
      rest = rest.dropFirst(size)
      while let message = try decoder.next(&buffer) { messages.append(message) }
    }
    return messages
  }

  private static func text(_ text: String) -> RedisValue { .bytes(Array(text.utf8)) }

  private static let values: [(String, RedisValue)] = [
    ("+OK\r\n", text("OK")), ("+\r\n", text("")), (":42\r\n", .integer(42)),
    (":-9223372036854775808\r\n", .integer(.min)), ("$5\r\nhe\r\no\r\n", text("he\r\no")),
    ("$0\r\n\r\n", text("")), ("$-1\r\n", .null), ("*-1\r\n", .null), ("_\r\n", .null),
    ("#t\r\n", .boolean(true)), ("#f\r\n", .boolean(false)), (",1.5\r\n", .double(1.5)),
    (",-inf\r\n", .double(-.infinity)), (",1e3\r\n", .double(1000)),
    ("(-123456789012345678901\r\n", .bigNumber("-123456789012345678901")),
    ("=8\r\ntxt:text\r\n", text("text")), ("*0\r\n", .array([])), ("%0\r\n", .map([])),
    ("-ERR bad\r\n", .error(RedisReplyError("ERR bad"))),
    ("!7\r\nERR b\r\n\r\n", .error(RedisReplyError("ERR b\r\n"))),
    ("*2\r\n:1\r\n*1\r\n+a\r\n", .array([.integer(1), .array([text("a")])])),
    ("~2\r\n:1\r\n:2\r\n", .set([.integer(1), .integer(2)])),
    ("%1\r\n+k\r\n$1\r\nv\r\n", .map([.init(key: text("k"), value: text("v"))])),
    ("|1\r\n+ttl\r\n:9\r\n:7\r\n", .integer(7)),
    ("*2\r\n|1\r\n+a\r\n*1\r\n:1\r\n:5\r\n:6\r\n", .array([.integer(5), .integer(6)])),
    ("|0\r\n+a\r\n", text("a")),
  ]

  @Test(arguments: values)
  func `Each type is decoded, wherever its bytes are divided`(
    bytes: String, value: RedisValue
  ) throws {
    let bytes = Array(bytes.utf8)
    #expect(try Self.decode(bytes) == [.reply(value)])
    for cut in 0...bytes.count {
      #expect(try Self.decode(bytes, in: [cut]) == [.reply(value)])
      #expect(try Self.decode(Array(bytes[..<cut])) == (cut < bytes.count ? [] : [.reply(value)]))
    }
    let single = [Int](repeating: 1, count: 3 * bytes.count)
    #expect(
      try Self.decode(bytes + bytes + bytes, in: single) == [
        .reply(value), .reply(value), .reply(value),
      ])
  }

  @Test func `Messages of the server come between replies, in their order`() throws {
    let bytes = "+a\r\n>2\r\n$10\r\ninvalidate\r\n*1\r\n+k\r\n+b\r\n>1\r\n_\r\n"
    let values: [Message] = [
      .reply(Self.text("a")), .push([Self.text("invalidate"), .array([Self.text("k")])]),
      .reply(Self.text("b")), .push([.null]),
    ]
    #expect(try Self.decode(Array(bytes.utf8)) == values)
  }

  @Test(arguments: [
    "hello\r\n", "\r\n", "\n", "+OK\n", ":\r\n", ":+1\r\n", ":1a\r\n", ":9223372036854775808\r\n",
    "$-2\r\n", "$?\r\n", "$3\r\nabcd\r\n", "$600000000\r\n", "*-2\r\n", "*9999999\r\n", "#x\r\n",
    "_x\r\n", ",0x10\r\n", ",infinity\r\n", ",\r\n", "(1.5\r\n", "(\r\n", "=3\r\nabc\r\n",
    "=-1\r\n", "*1\r\n>1\r\n+a\r\n", ">0\r\n", "|1\r\n>1\r\n", ".\r\n",
  ])
  func `Bytes that are not RESP3 are a violation`(bytes: String) {
    #expect(throws: RESPDecoder.Violation.self) { try Self.decode(Array(bytes.utf8)) }
  }

  @Test func `Each limit is checked before memory is used`() throws {
    var limits = RESPDecoder.Limits()
    limits.depth = 3
    limits.line = 100
    limits.reply = 1000
    func violates(_ bytes: String) -> Bool {
      do {
        _ = try Self.decode(Array(bytes.utf8), limits)
        return false
      } catch {
        return true
      }
    }
    let nested = String(repeating: "*1\r\n", count: 3)
    #expect(!violates(nested + ":1\r\n") && violates("*1\r\n" + nested + ":1\r\n"))
    #expect(!violates("+" + String(repeating: "x", count: 90)))
    #expect(violates("+" + String(repeating: "x", count: 110)))
    #expect(violates("$1000\r\n") && !violates("$900\r\n"))
    let ones = String(repeating: ":1\r\n", count: 31)
    #expect(violates("*40\r\n" + ones) && !violates("*20\r\n" + ones))
    // A million elements are announced; none has come.
    #expect(try Self.decode(Array("*1000000\r\n*1000000\r\n".utf8)) == [])
  }

  @Test func `Damaged messages never trap, and mean the same in any parts`() {
    let seed = Seed.announce()
    var random = seed.generator()
    let samples = Self.values.map { Array($0.0.utf8) }
    for _ in 0..<3000 {
      var bytes: [UInt8] = []
      for _ in 0..<Int.random(in: 1...6, using: &random) {
        bytes += samples.randomElement(using: &random)!
      }
      for _ in 0..<Int.random(in: 0...4, using: &random) {
        let place = Int.random(in: 0..<bytes.count, using: &random)
        switch Int.random(in: 0..<4, using: &random) {
        case 0: bytes[place] = UInt8.random(in: 0...255, using: &random)
        case 1: bytes[place] = "+-:,#(_$*%~>|=!0123456789\r\n".utf8.randomElement(using: &random)!
        case 2: bytes.remove(at: place)
        default: bytes.insert(UInt8.random(in: 0...255, using: &random), at: place)
        }
        if bytes.isEmpty { bytes = [0x2B] }
      }
      let parts = (0..<8).map { _ in Int.random(in: 0...9, using: &random) }
      let whole = Result { try Self.decode(bytes) }.mapError { $0 as! RESPDecoder.Violation }
      let divided = Result { try Self.decode(bytes, in: parts) }.mapError {
        $0 as! RESPDecoder.Violation
      }
      // Not-a-number is not equal to itself.
      #expect("\(whole)" == "\(divided)", "\(bytes) in \(parts)")
    }
  }
}
#endif
