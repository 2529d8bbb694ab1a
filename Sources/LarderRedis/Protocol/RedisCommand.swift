// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import NIOCore

/// A command with its arguments, for Redis or Valkey.
///
/// ```swift
/// let command = RedisCommand("SET", "user/17", bytes, "PX", 60_000)
/// ```
public struct RedisCommand: Sendable, Hashable, CustomStringConvertible {
  let words: [[UInt8]]

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
    words = [Array(name.utf8)] + arguments.map(\.redisBytes)
  }

  /// The name and the number of arguments. Arguments may be secrets, and are in no description.
  public var description: String {
    "\(String(decoding: words[0], as: UTF8.self)) with \(words.count - 1) arguments"
  }

  /// Appends the command as an array of strings, the form in which servers read it.
  func write(to buffer: inout ByteBuffer) {
    buffer.writeString("*\(words.count)\r\n")
    for word in words {
      buffer.writeString("$\(word.count)\r\n")
      buffer.writeBytes(word)
      buffer.writeString("\r\n")
    }
  }

  /// The size in the form of ``write(to:)``, or a little more.
  var size: Int { words.reduce(16) { $0 + $1.count + 16 } }
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
