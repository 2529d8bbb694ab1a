// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import ArgumentParser
import Foundation
import LarderCoding
import LarderEngine
import LarderUntyped

/// In which form entries stand in a file.
enum EntryFormat: String, ExpressibleByArgument, CaseIterable {
  case jsonl
  case cbor
}

/// What goes into a file or comes out of it: operands of `export` and `import`.
struct TransferOperands: ParsableArguments {
  @Argument(
    help: ArgumentHelp(
      """
      FILE, for entries; TYPE FILE, for the objects of a type: its stored name (App.Car), or the \
      last part of it. The file - is standard input or output.
      """, valueName: "type|file"),
    completion: .file())
  var operands: [String] = []

  @Option(
    name: .shortAndLong,
    help: ArgumentHelp("Entries only of this namespace, or all into it.", valueName: "name"))
  var namespace: String?

  @Option(
    name: .long,
    help: ArgumentHelp(
      "The form of entries, jsonl or cbor. (default: by the name, or by the first byte)",
      valueName: "form"))
  var format: EntryFormat?

  var type: String? { operands.count == 2 ? operands[0] : nil }
  var file: String { operands.last ?? "-" }

  func validate() throws {
    guard (1...2).contains(operands.count) else {
      throw ValidationError("Name a FILE, for entries, or a TYPE and a FILE, for objects.")
    }
    if type != nil, namespace != nil || format != nil {
      throw ValidationError("--namespace and --format are for entries, not for objects of a type.")
    }
  }

  var formatByName: EntryFormat {
    format ?? (file.hasSuffix(".cbor") || file.hasSuffix(".cborseq") ? .cbor : .jsonl)
  }
}

/// Entries on their way into a file and out of it.
struct EntryTransfer {
  let operands: TransferOperands
  let arguments: StoreArguments

  init(_ operands: TransferOperands, _ arguments: StoreArguments) {
    self.operands = operands
    self.arguments = arguments
  }

  private static let nouns = (one: "entry", many: "entries")

  func export(
    _ store: SharedStore, to output: FileHandle
  ) throws -> (count: Int, leftOut: Int) {
    var progress = TransferProgress("exporting", of: Self.nouns)
    defer { progress.clear() }
    let isCBOR = operands.formatByName == .cbor
    var buffer: [UInt8] = []
    buffer.reserveCapacity(1 << 17)
    var count = 0
    func empty() throws {
      do { try output.write(contentsOf: buffer) } catch {
        throw ToolError(
          "file",
          "\(operands.file == "-" ? "Standard output" : operands.file) cannot be written: "
            + error.localizedDescription)
      }
      buffer.removeAll(keepingCapacity: true)
    }
    let space = try operands.namespace.map { try Space(name: $0) }
    let leftOut = try store.core.export(space) { entry, total in
      if isCBOR {
        EntryItem.append(entry, to: &buffer)
      } else {
        EntryLine.append(entry, to: &buffer)
      }
      count += 1
      if buffer.count >= 1 << 16 { try empty() }
      progress.show(count, share: Double(count) / Double(max(total, 1)))
    }
    try empty()
    if leftOut > 0 {
      Console.complain("larder: \(Columns.count(leftOut, "entry is", "entries are")) damaged")
    }
    return (count, leftOut)
  }

  // MARK: Importing

  struct Batch {
    let core: StoreCore
    let keepsExisting: Bool
    let namespace: String?
    private(set) var entries: [TransferEntry] = []
    private(set) var bytes = 0
    private(set) var read = 0
    private(set) var stored = 0

    /// So many share pages, and are few enough that nobody waits long.
    static let count = 8000
    static let byteCount = 4 << 20

    init(core: StoreCore, keepsExisting: Bool, namespace: String?) {
      self.core = core
      self.keepsExisting = keepsExisting
      self.namespace = namespace
      entries.reserveCapacity(Self.count)
    }

    mutating func add(_ entry: consuming TransferEntry) throws {
      if let namespace { entry.namespace = namespace }
      bytes += entry.payload.count + entry.key.bytes.count
      entries.append(entry)
      if entries.count >= Self.count || bytes >= Self.byteCount { try flush() }
    }

    mutating func flush() throws {
      guard !entries.isEmpty else { return }
      stored += try core.importBatch(entries, keepsExisting: keepsExisting)
      read += entries.count
      entries.removeAll(keepingCapacity: true)
      bytes = 0
    }
  }

  /// Stores what a file holds. What was read before something that is wrong is kept.
  ///
  /// - Parameter items: How the items of an SQLite file are to be taken; given, it must be one.
  func importing(
    _ input: FileHandle, into store: SharedStore, keepsExisting: Bool, items: ItemOptions? = nil
  ) throws {
    let file = operands.file
    func read() throws -> [UInt8] {
      do { return Array(try input.read(upToCount: 1 << 16) ?? Data()) } catch {
        throw ToolError("file", "\(file) cannot be read: \(error)")
      }
    }
    let first = try read()
    var batch = Batch(
      core: store.core, keepsExisting: keepsExisting, namespace: operands.namespace)
    if operands.format == nil, first.starts(with: SQLiteTable.magic) {
      return try importItems(first, read, into: &batch, items ?? ItemOptions(.text))
    }
    if items != nil {
      throw ToolError("file", "\(file) is no SQLite file; --key-type and --mixed are for these.")
    }
    let format = operands.format ?? (first.first == EntryItem.start ? .cbor : .jsonl)
    let size = (try? FileManager.default.attributesOfItem(atPath: file)[.size] as? Int) ?? nil
    var progress = TransferProgress("importing", of: Self.nouns)
    defer { progress.clear() }
    func share(_ position: Int) -> Double? {
      size.map { Double(position) / Double(max($0, 1)) }
    }
    do {
      if format == .cbor {
        var items = EntryItemReader(first: first, read: read)
        while let entry = try items.next() {
          try batch.add(entry)
          progress.show(items.number, share: share(items.consumed))
        }
      } else {
        var held: [UInt8]? = first
        var lines = LineReader {
          defer { held = nil }
          return try held ?? read()
        }
        while let line = try lines.next() {
          if line.allSatisfy({ $0 <= 0x20 }) { continue }
          try batch.add(entry(line, lines.number))
          progress.show(lines.number, share: share(lines.position))
        }
      }
      try batch.flush()
    } catch let error as UntypedError {
      try batch.flush()
      let unit = format == .cbor ? "item" : "line"
      let place = error.line.map { "\(file == "-" ? "standard input" : file), \(unit) \($0): " }
      throw ToolError(
        error.code.rawValue,
        "\(place ?? "")\(error.message) "
          + "(\(Columns.count(batch.read, "entry", "entries")) before it read)",
        details: (error.line.map { [(unit, CBORValue($0))] } ?? [])
          + [("stored", CBORValue(batch.stored))])
    }
    progress.clear()
    say(batch.read, batch.stored)
  }

  private func entry(_ line: ArraySlice<UInt8>, _ number: Int) throws -> TransferEntry {
    do {
      return try EntryLine.entry(line)
    } catch {
      throw UntypedError(.invalidLine, "column \(error.column): \(error.message)", line: number)
    }
  }

  private func say(_ read: Int, _ stored: Int) {
    if arguments.json {
      Console.json(
        .object([("stored", CBORValue(stored)), ("leftOut", CBORValue(read - stored))]))
      return
    }
    let rest = read - stored
    Console.line(
      "Imported \(Columns.count(stored, "entry", "entries"))"
        + (rest > 0 ? ", left out \(Columns.grouped(rest)) (expired, or stored already)." : "."))
  }
}
