// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
package import LarderEngine
internal import LarderSystem

/// A memoized command and all parts of its key.
package struct CommandInvocation: Sendable {
  /// The path of the executable, absolute if the working directory has a path. Like the arguments,
  /// it may contain bytes that are not UTF-8.
  package let path: [UInt8]
  /// The arguments, the name of the command first.
  package private(set) var arguments: [[UInt8]]
  /// Whether it reads standard input, which is not a part of the key.
  package let readsInput: Bool
  private let environment: [(name: String, value: [UInt8]?)]
  private let directory: Directory

  /// The working directory, as a part of the key.
  private enum Directory {
    /// The working directory is not a part of the key.
    case any
    case named([UInt8])
    /// The working directory was removed. Keys of two removed directories would be equal.
    case unknown
  }

  /// The error of a missing or forbidden command: the message and the exit status of a shell.
  package struct CommandNotFound: Error, Sendable {
    package let message: String
    package let code: Int32
  }

  /// Creates an invocation from this process's last arguments.
  ///
  /// - Parameters:
  ///   - name: The name of the command, if it has no arguments.
  ///   - count: The number of arguments, the name included.
  ///   - environment: The variables that are a part of the key. An unset variable differs from an
  ///     empty one.
  ///   - isOfDirectory: Whether the working directory is a part of the key.
  ///   - readsInput: Whether the command reads standard input.
  /// - Throws: ``CommandNotFound`` if the executable is missing or not executable.
  package init(
    _ name: String, lastArguments count: Int, environment: [String], isOfDirectory: Bool,
    readsInput: Bool
  ) throws(CommandNotFound) {
    arguments = LarderSystem.lastArguments(count)
    switch ExecutableSearch.find(arguments.first ?? Array(name.utf8)) {
    case .found(let path): self.path = path
    case .missing: throw CommandNotFound(message: "\(name): command not found", code: 127)
    case .forbidden(let path):
      throw CommandNotFound(
        message: "\(String(decoding: path, as: UTF8.self)): permission denied", code: 126)
    }
    self.environment = Set(environment).sorted().map { ($0, FileSystem.environmentBytes($0)) }
    if isOfDirectory {
      directory = FileSystem.currentDirectory.map { .named($0) } ?? .unknown
    } else {
      directory = .any
    }
    self.readsInput = readsInput
  }

  /// Creates an invocation from explicit parts, for tests.
  package init(
    path: String, arguments: [String], environment: [(name: String, value: [UInt8]?)] = [],
    directory: [UInt8]? = nil
  ) {
    self.path = Array(path.utf8)
    self.arguments = arguments.map { Array($0.utf8) }
    self.environment = environment
    self.directory = directory.map { .named($0) } ?? .any
    readsInput = false
  }

  /// Returns this invocation with one more argument at the end.
  package func appending(_ argument: [UInt8]) -> CommandInvocation {
    var result = self
    result.arguments.append(argument)
    return result
  }

  package static let namespace = "larder.memo"

  /// Whether the key is unique to this invocation. If the working directory has no path, it may not
  /// be, and the result must not be stored.
  var isNamed: Bool {
    if case .unknown = directory { return false }
    return path.first == UInt8(ascii: "/")
  }

  /// The key of the result: every part with its type and its length, so that no two invocations
  /// share a key.
  package var key: EncodedKey {
    var encoder = KeyEncoder()
    func append(_ bytes: [UInt8]) {
      // The two types have different tags; `larder list` shows the string.
      if let text = String(validating: bytes, as: UTF8.self) {
        encoder.appendComponent(text)
      } else {
        encoder.appendComponent(bytes)
      }
    }
    append(path)
    encoder.appendComponent(arguments.count)
    for argument in arguments { append(argument) }
    encoder.appendComponent(readsInput ? 1 : 0)
    encoder.appendComponent(environment.count)
    for (name, value) in environment {
      encoder.appendComponent(name)
      // An integer has another tag than a string: an unset variable differs from every value.
      if let value { encoder.appendComponent(value) } else { encoder.appendComponent(0) }
    }
    if case .named(let directory) = directory {
      append(directory)
    } else {
      encoder.appendComponent(0)
    }
    return EncodedKey(tag: KeyTag.composite.rawValue, bytes: encoder.bytes)
  }

  var program: SpawnConfiguration {
    var program = SpawnConfiguration(path: path, arguments: arguments)
    program.inheritsInput = readsInput
    return program
  }
}
