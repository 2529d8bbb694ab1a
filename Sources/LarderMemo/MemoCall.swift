// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderCoding
package import LarderEngine
internal import LarderSystem

/// A command whose result is remembered, and all that tells its result from others.
package struct MemoCall: Sendable {
  /// The file that runs, absolute.
  package let path: String
  /// What it is given, its own name first. They need not be UTF-8.
  package let arguments: [[UInt8]]
  /// Whether it reads standard input. What it reads is no part of the key: nobody can know.
  package let readsInput: Bool
  private let environment: [(name: String, value: [UInt8]?)]
  private let directory: String?

  /// Why there is no such call: what a shell says, and the code it ends with.
  package struct NoCommand: Error, Sendable {
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
  ) throws(NoCommand) {
    switch Executable.find(name) {
    case .found(let path): self.path = path
    case .missing: throw NoCommand(message: "\(name): command not found", code: 127)
    case .forbidden(let path): throw NoCommand(message: "\(path): permission denied", code: 126)
    }
    arguments = LarderSystem.lastArguments(count)
    self.environment = Set(environment).sorted().map { ($0, FileSystem.environmentBytes($0)) }
    directory = isOfDirectory ? FileSystem.currentDirectory : nil
    self.readsInput = readsInput
  }

  /// For tests: everything given.
  package init(
    path: String, arguments: [String], environment: [(name: String, value: [UInt8]?)] = [],
    directory: String? = nil
  ) {
    self.path = path
    self.arguments = arguments.map { Array($0.utf8) }
    self.environment = environment
    self.directory = directory
    readsInput = false
  }

  package static let namespace = "larder.memo"

  /// The key of the result: every part with its kind and its length, so that no two calls share one.
  package var key: EncodedKey {
    var encoder = KeyEncoder()
    encoder.appendComponent(path)
    encoder.appendComponent(arguments.count)
    for argument in arguments {
      // The two kinds cannot be confused; as a text it can be read in `larder list`.
      if let text = String(validating: argument, as: UTF8.self) {
        encoder.appendComponent(text)
      } else {
        encoder.appendComponent(argument)
      }
    }
    encoder.appendComponent(readsInput ? 1 : 0)
    encoder.appendComponent(environment.count)
    for (name, value) in environment {
      encoder.appendComponent(name)
      // An integer is no text: a variable that is not set is not one with any value.
      if let value { encoder.appendComponent(value) } else { encoder.appendComponent(0) }
    }
    if let directory { encoder.appendComponent(directory) } else { encoder.appendComponent(0) }
    return EncodedKey(tag: KeyTag.composite.rawValue, bytes: encoder.bytes)
  }

  var program: Program {
    var program = Program(path: path, arguments: arguments)
    program.inheritsInput = readsInput
    return program
  }
}
