// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
package import LarderEngine
internal import LarderSystem

/// A command whose result is remembered, and all that tells its result from others.
package struct CommandInvocation: Sendable {
  /// The file that runs, absolute if that can be told. It need not be UTF-8, as the arguments need
  /// not.
  package let path: [UInt8]
  /// What it is given, its own name first.
  package let arguments: [[UInt8]]
  /// Whether it reads standard input. What it reads is no part of the key: nobody can know.
  package let readsInput: Bool
  private let environment: [(name: String, value: [UInt8]?)]
  private let directory: Directory

  /// The working directory, as a part of the key.
  private enum Directory {
    /// It makes no difference.
    case any
    case named([UInt8])
    /// It was removed: commands that run in two such are not to be told from each other.
    case unknown
  }

  /// Why there is no such call: what a shell says, and the code it ends with.
  package struct CommandNotFound: Error, Sendable {
    package let message: String
    package let code: Int32
  }

  /// A command by its name and arguments.
  ///
  /// - Parameters:
  ///   - count: How many of this process's last arguments they are, the name included.
  ///   - environment: Variables whose values tell results apart. One that is not set and one that is
  ///     empty are different.
  ///   - isOfDirectory: Whether the working directory does as well.
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

  /// For tests: everything given.
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

  package static let namespace = "larder.memo"

  /// Whether the key tells this call from all others. Without a working directory that has a path it
  /// may not, and its result must not be kept.
  var isNamed: Bool {
    if case .unknown = directory { return false }
    return path.first == UInt8(ascii: "/")
  }

  /// The key of the result: every part with its kind and its length, so that no two calls share one.
  package var key: EncodedKey {
    var encoder = KeyEncoder()
    func append(_ bytes: [UInt8]) {
      // The two kinds cannot be confused; as a text it can be read in `larder list`.
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
      // An integer is no text: a variable that is not set is not one with any value.
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
