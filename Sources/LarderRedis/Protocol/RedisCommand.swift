// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Redis
/// A command with its arguments, for Redis or Valkey.
///
/// ```swift
/// let command = RedisCommand("SET", "user/17", bytes, "PX", 60_000)
/// ```
public struct RedisCommand: Sendable, Hashable, CustomStringConvertible {
  /// The words as an array of strings, the form in which servers read them.
  let bytes: [UInt8]
  /// The number of words.
  let count: Int

  /// Creates a command.
  ///
  /// - Parameters:
  ///   - name: The name, such as `GET`.
  ///   - arguments: Its arguments.
  public init(_ name: String, _ arguments: any RedisArgument...) {
    self.init(name, arguments)
  }

  /// Creates a command with arguments in an array.
  public init(_ name: String, _ arguments: [any RedisArgument]) {
    self.init([name.redisBytes] + arguments.map { $0.redisBytes })
  }

  /// Creates a command of a name and arguments.
  init(_ words: [[UInt8]]) {
    count = words.count
    var bytes: [UInt8] = []
    bytes.reserveCapacity(words.reduce(16) { $0 + $1.count + 16 })
    Self.append(UInt8(ascii: "*"), words.count, to: &bytes)
    for word in words {
      Self.append(UInt8(ascii: "$"), word.count, to: &bytes)
      bytes += word
      bytes += Self.lineEnd
    }
    self.bytes = bytes
  }

  private static let lineEnd: [UInt8] = [0x0D, 0x0A]

  private static func append(_ kind: UInt8, _ number: Int, to bytes: inout [UInt8]) {
    bytes.append(kind)
    let start = bytes.count
    var rest = number
    repeat {
      bytes.append(UInt8(0x30 + rest % 10))
      rest /= 10
    } while rest > 0
    bytes[start...].reverse()
    bytes += lineEnd
  }

  /// Returns a word.
  func word(_ index: Int) -> [UInt8] {
    var position = 0
    func number() -> Int {
      var value = 0
      position += 1
      while bytes[position] != 0x0D {
        value = value * 10 + Int(bytes[position] - 0x30)
        position += 1
      }
      position += 2
      return value
    }
    _ = number()
    for _ in 0..<index { position += number() + 2 }
    let length = number()
    return Array(bytes[position..<(position + length)])
  }

  /// The name and the number of arguments. Arguments may be secrets, and are in no description.
  public var description: String {
    "\(String(decoding: word(0), as: UTF8.self)) with \(count - 1) arguments"
  }
}

/// An argument of a command. Redis has one type of arguments: bytes.
public protocol RedisArgument: Sendable {
  /// The bytes that are sent.
  var redisBytes: [UInt8] { get }
}

extension String: RedisArgument {
  /// The text in UTF-8.
  public var redisBytes: [UInt8] { Array(utf8) }
}

extension Int: RedisArgument {
  /// The decimal digits.
  public var redisBytes: [UInt8] { Array(String(self).utf8) }
}

extension [UInt8]: RedisArgument {
  /// The bytes themselves.
  public var redisBytes: [UInt8] { self }
}
#endif
