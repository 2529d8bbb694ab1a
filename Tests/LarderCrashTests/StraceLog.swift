// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// STRACE'S OUTPUT
//
// With `-f -o FILE` each line begins with the thread:
//
//     16364 pwrite64(5<\x2f\x74>, "\x00\x01", 2, 4096) = 2
//     16364 openat(AT_FDCWD, "\x2f\x74", O_RDWR|O_CREAT, 0600) = -1 ENOSPC (No space left on device)
//     16364 writev(5, [{iov_base="\x03", iov_len=1}, {iov_base="\x04", iov_len=1}], 2) = 2
//     16364 futex(0x7f, FUTEX_WAIT, 0 <unfinished ...>
//     16364 <... futex resumed>) = 0
//     16364 +++ killed by SIGKILL +++
//
// With `-xx` every string is in hexadecimal, and with `-y` so is the path of a descriptor: no
// comma, bracket or quote inside them can be mistaken for strace's own.

/// A system call as strace wrote it down.
struct SystemCall {
  let thread: Int
  let name: String
  /// The arguments' text, cut at the commas of the outermost level.
  let arguments: [ArraySlice<UInt8>]
  /// The returned value, negative after an error; nil if the process died in the call.
  let result: Int?
  /// Whether strace changed the call's result.
  var isInjected = false
  /// The number of calls that had ended when this one began.
  var begun = 0

  /// An argument that is a number or begins with one, as a descriptor with its path does.
  func number(_ index: Int) -> Int? {
    guard index < arguments.count else { return nil }
    return Int(String(decoding: arguments[index].prefix { Self.isNumeral($0) }, as: UTF8.self))
  }

  func text(_ index: Int) -> String {
    index < arguments.count ? String(decoding: arguments[index], as: UTF8.self) : ""
  }

  /// Returns the path of a descriptor, between `<` and `>`.
  func path(behind index: Int) -> String? {
    guard index < arguments.count else { return nil }
    let argument = arguments[index]
    guard let start = argument.firstIndex(of: UInt8(ascii: "<")) else { return nil }
    let end = argument.lastIndex(of: UInt8(ascii: ">")) ?? argument.endIndex
    return String(decoding: StraceLog.unescape(argument[(start + 1)..<end]), as: UTF8.self)
  }

  /// All bytes of the quoted strings of an argument: of one, or of an array of buffers.
  func bytes(_ index: Int) -> [UInt8] {
    guard index < arguments.count else { return [] }
    var result: [UInt8] = []
    for (number, part) in arguments[index].split(
      separator: UInt8(ascii: "\""), omittingEmptySubsequences: false
    ).enumerated() where number % 2 == 1 {
      result += StraceLog.unescape(part)
    }
    return result
  }

  func string(_ index: Int) -> String { String(decoding: bytes(index), as: UTF8.self) }

  private static func isNumeral(_ byte: UInt8) -> Bool {
    byte == UInt8(ascii: "-") || (byte >= UInt8(ascii: "0") && byte <= UInt8(ascii: "9"))
  }
}

/// The output of strace in a file.
enum StraceLog {
  /// The calls, in the order in which they ended.
  static func parse(_ log: [UInt8]) -> [SystemCall] {
    var calls: [SystemCall] = []
    var unfinished: [Int: (text: [UInt8], begun: Int)] = [:]
    for line in log.split(separator: UInt8(ascii: "\n")) {
      guard let space = line.firstIndex(of: UInt8(ascii: " ")),
        let thread = Int(String(decoding: line[..<space], as: UTF8.self))
      else { continue }
      let rest = line[space...].drop { $0 == UInt8(ascii: " ") }
      if rest.starts(with: "<... ".utf8) {
        guard let start = unfinished.removeValue(forKey: thread),
          let end = rest.firstIndex(of: UInt8(ascii: ">"))
        else { continue }
        if var call = parse((start.text + rest[(end + 1)...])[...], thread: thread) {
          call.begun = start.begun
          calls.append(call)
        }
        continue
      } else if rest.suffix(16).elementsEqual("<unfinished ...>".utf8) {
        unfinished[thread] = (Array(rest.dropLast(16)), calls.count)
        continue
      }
      if var call = parse(rest, thread: thread) {
        call.begun = calls.count
        calls.append(call)
      }
    }
    // A process that died in a call has at least begun it.
    for (thread, start) in unfinished {
      if var call = parse(start.text[...] + Array(") = ?".utf8)[...], thread: thread) {
        call.begun = start.begun
        calls.append(call)
      }
    }
    return calls
  }

  private static func parse(_ line: ArraySlice<UInt8>, thread: Int) -> SystemCall? {
    guard let open = line.firstIndex(of: UInt8(ascii: "(")),
      let equals = line.lastIndex(of: UInt8(ascii: "="))
    else { return nil }
    let name = String(decoding: line[..<open], as: UTF8.self)
    guard !name.isEmpty, !name.hasPrefix("+"), !name.hasPrefix("-") else { return nil }
    let value = line[(equals + 1)...].drop { $0 == UInt8(ascii: " ") }
    let word = value.prefix { $0 != UInt8(ascii: " ") && $0 != UInt8(ascii: "<") }
    let text = String(decoding: word, as: UTF8.self)
    let result = text.hasPrefix("0x") ? Int(text.dropFirst(2), radix: 16) : Int(text)
    var end = equals
    while end > open, line[end] != UInt8(ascii: ")") { end -= 1 }
    return SystemCall(
      thread: thread, name: name, arguments: arguments(line[(open + 1)..<max(end, open + 1)]),
      result: result, isInjected: line.suffix(injected.count).elementsEqual(injected))
  }

  private static let injected = Array("(INJECTED)".utf8)

  /// Returns whether strace let a call of libdispatch fail: the read of a worker thread's state.
  ///
  /// libdispatch opens `/proc/TID/stat` on its threads, when it starts a worker and once a second
  /// while workers run, and traps (SIGILL) if it cannot. strace counts calls per thread, so an
  /// error of the first `openat` hits that call whenever the process lives for a second.
  static func hasStruckDispatch(_ calls: [SystemCall]) -> Bool {
    let main = calls.first?.thread
    return calls.contains { call in
      call.isInjected && call.name == "openat" && call.thread != main
        && call.string(1).hasPrefix("/proc/") && call.string(1).hasSuffix("/stat")
    }
  }

  private static func arguments(_ text: ArraySlice<UInt8>) -> [ArraySlice<UInt8>] {
    var result: [ArraySlice<UInt8>] = []
    var depth = 0
    var start = text.startIndex
    var isQuoted = false
    for index in text.indices {
      switch text[index] {
      case UInt8(ascii: "\""): isQuoted.toggle()
      case _ where isQuoted: break
      case UInt8(ascii: "["), UInt8(ascii: "{"), UInt8(ascii: "<"): depth += 1
      case UInt8(ascii: "]"), UInt8(ascii: "}"), UInt8(ascii: ">"): depth -= 1
      case UInt8(ascii: ",") where depth == 0:
        result.append(text[start..<index])
        start = index + 1
        if start < text.endIndex, text[start] == UInt8(ascii: " ") { start += 1 }
      default: break
      }
    }
    if start < text.endIndex { result.append(text[start...]) }
    return result
  }

  /// The bytes of a text in which each is `\x` and two digits.
  static func unescape(_ text: ArraySlice<UInt8>) -> [UInt8] {
    var result: [UInt8] = []
    result.reserveCapacity(text.count / 4)
    var index = text.startIndex
    while index + 3 < text.endIndex, text[index] == UInt8(ascii: "\\") {
      result.append(digit(text[index + 2]) << 4 | digit(text[index + 3]))
      index += 4
    }
    if index < text.endIndex { result += text[index...] }
    return result
  }

  private static func digit(_ byte: UInt8) -> UInt8 {
    byte <= UInt8(ascii: "9") ? byte - UInt8(ascii: "0") : byte - UInt8(ascii: "a") + 10
  }
}
