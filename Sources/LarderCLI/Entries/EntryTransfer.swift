// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import ArgumentParser
import Foundation
import LarderCoding
import LarderDynamic
import LarderEngine

/// The format of a file of entries.
enum EntryFormat: String, ExpressibleByArgument, CaseIterable {
  case jsonl
  case cbor
}

/// The operands of `export` and `import`.
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
    help: ArgumentHelp(
      "Export entries of this namespace only, or import all entries into it.", valueName: "name"))
  var namespace: String?

  @Option(
    name: .long,
    help: ArgumentHelp(
      "The format of entries, jsonl or cbor. (default: by the file name or the first byte)",
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

/// The export and the import of entries.
struct EntryTransfer {
  let operands: TransferOperands
  let arguments: StoreArguments

  init(_ operands: TransferOperands, _ arguments: StoreArguments) {
    self.operands = operands
    self.arguments = arguments
  }

  private static let nouns = (one: "entry", many: "entries")

  func export(
    _ store: SharedStore, to output: inout OutputBuffer
  ) throws -> (count: Int, leftOut: Int) {
    var progress = TransferProgress("exporting", of: Self.nouns)
    defer { progress.clear() }
    let isCBOR = operands.formatByName == .cbor
    var count = 0
    let space = try operands.namespace.map { try NamespaceHandle(name: $0) }
    let leftOut = try store.core.export(space) { entry, total in
      if isCBOR {
        CBOREntryWriter.append(entry, to: &output.bytes)
      } else {
        JSONLinesEntryCoder.append(entry, to: &output.bytes)
      }
      count += 1
      try output.writeIfFull()
      progress.show(count, share: Double(count) / Double(max(total, 1)))
    }
    try output.write()
    if leftOut > 0 {
      Console.printError(
        "larder: \(TextLayout.count(leftOut, "entry is", "entries are")) damaged and omitted.")
    }
    return (count, leftOut)
  }

  // MARK: Importing

  struct Batch {
    /// The error of an entry that the store rejects, or of all entries from there on a full disk.
    /// The entries that precede it are stored.
    struct Refused: Error {
      let error: StoreError
      /// The number of the line or item.
      let place: Int
      /// Whether only this entry is rejected.
      let isAlone: Bool
    }

    let core: StoreCore
    let keepsExisting: Bool
    let namespace: String?
    private(set) var entries: [ExportedEntry] = []
    private var places: [Int] = []
    private(set) var bytes = 0
    private(set) var read = 0
    private(set) var stored = 0

    /// Enough entries to share pages, and few enough that other writers wait briefly.
    static let count = 8000
    static let byteCount = 4 << 20

    init(core: StoreCore, keepsExisting: Bool, namespace: String?) throws {
      self.core = core
      self.keepsExisting = keepsExisting
      self.namespace = namespace
      if let namespace { _ = try NamespaceHandle(name: namespace) }
      entries.reserveCapacity(Self.count)
      places.reserveCapacity(Self.count)
    }

    /// - Throws: ``Refused``, for this entry or for one before it.
    mutating func add(_ entry: consuming ExportedEntry, place: Int) throws {
      if let namespace { entry.namespace = namespace }
      bytes += entry.payload.count + entry.key.bytes.count
      entries.append(entry)
      places.append(place)
      if entries.count >= Self.count || bytes >= Self.byteCount { try flush() }
    }

    mutating func flush() throws {
      guard !entries.isEmpty else { return }
      // No entry is stored twice, even after an error.
      defer {
        entries.removeAll(keepingCapacity: true)
        places.removeAll(keepingCapacity: true)
        bytes = 0
      }
      let imported: ImportResult
      do {
        imported = try core.importBatch(entries, keepsExisting: keepsExisting)
      } catch let error as StoreError {
        throw Refused(error: error, place: places[0], isAlone: false)
      }
      stored += imported.stored
      read += imported.refusal?.index ?? entries.count
      guard let refusal = imported.refusal else { return }
      throw Refused(
        error: refusal.error, place: places[refusal.index], isAlone: true)
    }
  }

  /// Stores the entries of a file. Entries that precede an invalid one are stored.
  func importing(
    _ input: FileHandle, into store: SharedStore, keepsExisting: Bool
  ) throws {
    let file = operands.file
    func read() throws -> [UInt8] {
      do { return Array(try input.read(upToCount: 1 << 16) ?? Data()) } catch {
        throw ToolError("file", "Cannot read \(file): \(error)")
      }
    }
    let first = try read()
    var batch = try Batch(
      core: store.core, keepsExisting: keepsExisting, namespace: operands.namespace)
    let format = operands.format ?? (first.first == CBOREntryWriter.start ? .cbor : .jsonl)
    let size = (try? FileManager.default.attributesOfItem(atPath: file)[.size] as? Int) ?? nil
    var progress = TransferProgress("importing", of: Self.nouns)
    defer { progress.clear() }
    func share(_ position: Int) -> Double? {
      size.map { Double(position) / Double(max($0, 1)) }
    }
    let unit = format == .cbor ? "item" : "line"
    do {
      try keeping(&batch) { batch throws in
        if format == .cbor {
          var items = CBOREntryReader(first: first, read: read)
          while let entry = try items.next() {
            try batch.add(entry, place: items.number)
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
            try batch.add(entry(line, lines.number), place: lines.number)
            progress.show(lines.number, share: share(lines.position))
          }
        }
      }
    } catch let error as DynamicObjectError {
      throw failure(error.code.rawValue, error.message, at: error.line, unit, batch)
    } catch let refused as Batch.Refused {
      let error = refused.error
      let message =
        refused.isAlone ? error.message : "Nothing from here on is stored. \(error.message)"
      throw failure(error.code.rawValue, message, at: refused.place, unit, batch)
    }
    progress.clear()
    say(batch.read, batch.stored)
  }

  /// Reads into a batch and stores it, including the entries that precede an error.
  func keeping<R>(_ batch: inout Batch, _ read: (inout Batch) throws -> R) throws -> R {
    let result: R
    do {
      result = try read(&batch)
    } catch let refused as Batch.Refused {
      throw refused
    } catch {
      // If the store rejects one of these entries, that is the first error.
      try batch.flush()
      throw error
    }
    try batch.flush()
    return result
  }

  private func failure(
    _ code: String, _ message: String, at place: Int?, _ unit: String, _ batch: Batch
  ) -> ToolError {
    let file = operands.file == "-" ? "standard input" : operands.file
    return ToolError(
      code,
      "\(place.map { "\(file), \(unit) \($0): " } ?? "")\(message) "
        + "(\(TextLayout.count(batch.read, "entry", "entries")) before it read)",
      details: (place.map { [(unit, CBORValue($0))] } ?? []) + [("stored", CBORValue(batch.stored))]
    )
  }

  private func entry(_ line: ArraySlice<UInt8>, _ number: Int) throws -> ExportedEntry {
    do {
      return try JSONLinesEntryCoder.entry(line)
    } catch {
      throw DynamicObjectError(
        .invalidLine, "column \(error.column): \(error.message)", line: number)
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
      "Imported \(TextLayout.count(stored, "entry", "entries"))"
        + (rest > 0 ? ", left out \(TextLayout.grouped(rest)) (expired, or stored already)." : "."))
  }
}
#endif
