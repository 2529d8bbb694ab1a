// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import ArgumentParser
import Foundation
import LarderCoding
import LarderDefaults
import LarderDynamic
import LarderEngine
import LarderMemo

/// The exit statuses of the tool, other than success.
enum Exit {
  /// No such entry, or `verify` found an error.
  static let negative = ExitCode(1)
  /// The path contains no store.
  static let noStore = ExitCode(2)
  /// A usage error; the argument parser uses the same status.
  static let usage = ExitCode(64)
  /// Any other failure.
  static let failure = ExitCode(70)
}

/// An error that the tool prints, and its exit status.
struct ToolError: Error {
  let code: String
  let message: String
  let exit: ExitCode
  /// Further fields of the error as JSON.
  let details: [(String, CBORValue)]

  init(
    _ code: String, _ message: String, exit: ExitCode = Exit.failure,
    details: [(String, CBORValue)] = []
  ) {
    self.code = code
    self.message = message
    self.exit = exit
    self.details = details
  }

  /// Returns a usage error: an argument has an invalid value.
  static func usage(_ message: String) -> ToolError {
    ToolError("usage", message, exit: Exit.usage)
  }
}

/// Standard output and standard error.
enum Console {
  /// Whether standard output is a terminal.
  static var isTerminal: Bool { isatty(1) == 1 }
  static var isErrorTerminal: Bool { isatty(2) == 1 }
  /// Whether standard input is a terminal.
  static var isInputTerminal: Bool { isatty(0) == 1 }

  /// Writes bytes unchanged. A broken pipe ends the process, as with any tool. A full disk does as
  /// well: a truncated answer must not look complete.
  static func write(_ bytes: some DataProtocol) {
    if CommandProxy.isWithoutOutput, !bytes.isEmpty {
      printError("\(Style.errorPrefix("larder:")) Cannot write standard output: it is closed.")
      exit(Exit.failure.rawValue)
    }
    do { try FileHandle.standardOutput.write(contentsOf: bytes) } catch {
      printError(
        Style.errorPrefix("larder:")
          + " Cannot write standard output: \(error.localizedDescription)"
      )
      exit(Exit.failure.rawValue)
    }
  }

  static func write(_ text: String) { write(Data(text.utf8)) }
  static func line(_ text: String = "") { write(text + "\n") }
  static func json(_ value: CBORValue, pretty: Bool = true) {
    line(value.jsonText(pretty: pretty))
  }

  /// Writes a line to standard error.
  static func printError(_ text: String, terminator: String = "\n") {
    try? FileHandle.standardError.write(contentsOf: Data((text + terminator).utf8))
  }

  /// Prints the error of a wrong command line.
  static func printUsageError(_ message: String, json: Bool) {
    guard json else { return printError("larder: \(message)") }
    printError(
      CBORValue.object([("error", .text("usage")), ("message", .text(message))]).jsonText())
  }

  /// Reads the lines of standard input, which end with a newline, with or without a carriage return.
  static func readLines() throws -> [String] {
    guard let text = String(validating: try readInput(), as: UTF8.self) else {
      throw ToolError.usage("Standard input is not UTF-8 text.")
    }
    var lines = text.split(omittingEmptySubsequences: false) { $0 == "\n" || $0 == "\r\n" }
    if lines.last == "" { lines.removeLast() }
    return lines.map(String.init)
  }

  /// Reads all of standard input.
  static func readInput() throws -> [UInt8] {
    Array(try FileHandle.standardInput.readToEnd() ?? Data())
  }

  /// Runs the body of a command. Prints a thrown error as one line, or as one JSON object, to
  /// standard error, and throws its exit status.
  static func reporting(json: Bool, _ body: () throws -> Void) throws {
    do { try body() } catch { throw report(error, json: json) }
  }

  /// Does the same for an asynchronous body.
  static func reporting(json: Bool, _ body: () async throws -> Void) async throws {
    do { try await body() } catch { throw report(error, json: json) }
  }

  private static func report(_ error: any Error, json: Bool) -> any Error {
    CommandProxy.endIfInterrupted()
    let code: String
    let message: String
    var path: String?
    var exit = Exit.failure
    var details: [(String, CBORValue)] = []
    switch error {
    case is ExitCode: return error
    case let error as ValidationError:
      guard json else { return error }
      (code, message, exit) = ("usage", error.message, Exit.usage)
    case let error as ToolError:
      (code, message, exit) = (error.code, error.message, error.exit)
      details = error.details
    case let error as DynamicObjectError:
      (code, message) = (error.code.rawValue, error.message)
    case let error as StoreError:
      (code, message, path) = (error.code.rawValue, error.message, error.path)
      if [.invalidNamespace, .invalidLockName].contains(error.code) { exit = Exit.usage }
    case let error as DefaultsError:
      (code, message) = (error.code.rawValue, error.message)
      if error.code == .invalidSuiteName { exit = Exit.usage }
    case let error as CodecError:
      (code, message) = (error.code.rawValue, error.message)
      if error.code == .invalidKey { exit = Exit.usage }
    default:
      (code, message) = ("system", "\(error)")
    }
    if json {
      var fields: [(String, CBORValue)] = [("error", .text(code)), ("message", .text(message))]
      if let path { fields.append(("path", .text(path))) }
      printError(CBORValue.object(fields + details).jsonText())
    } else if let path, !message.contains(path) {
      printError("\(Style.errorPrefix("larder:")) \(path): \(message)")
    } else {
      printError("\(Style.errorPrefix("larder:")) \(message)")
    }
    return exit
  }
}

extension CBORValue {
  init(_ number: Int) {
    self = number < 0 ? .negative(UInt64(-1 - number)) : .unsigned(UInt64(number))
  }

  init(_ text: String?) { self = text.map(CBORValue.text) ?? .null }

  /// Returns an object with its fields in this order.
  static func object(_ fields: [(String, CBORValue)]) -> CBORValue {
    .map(fields.map { Pair(.text($0.0), $0.1) })
  }
}
#endif
