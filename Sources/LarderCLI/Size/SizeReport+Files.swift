// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import LarderCoding
import LarderEngine

// The files next to the data file, and the two forms of the answer.

extension SizeReport {
  /// Returns the parts of files other than the data file of the current generation.
  static func files(_ file: FileParts) -> [Part] {
    var result: [Part] = []
    var small = 0
    for (path, bytes) in file.files {
      let name = path.split(separator: "/").last.map(String.init) ?? path
      guard let kind = kind(of: name) else {
        small += bytes
        continue
      }
      result.append(
        Part(
          code: kind.code, name: path, title: "\(kind.title) \(name)", bytes: bytes,
          action: kind.action(path)))
    }
    result.append(Part(code: "smallFiles", title: "other files and directories", bytes: small))
    return result
  }

  private struct Kind {
    let code: String
    let title: String
    let action: (String) -> String?
  }

  private static func kind(of name: String) -> Kind? {
    switch name {
    case "shared.table":
      Kind(code: "sharedTable", title: "shared memory") { _ in
        "None is needed: its size follows from the budget when the store is created."
      }
    case "locks":
      Kind(code: "locks", title: "locks of callers") { _ in "None is needed: its size is fixed." }
    case "rates":
      Kind(code: "rates", title: "limiters of callers") { _ in
        "None is needed: its size is fixed."
      }
    case "lock.mdb":
      Kind(code: "readerTable", title: "reader slots") { _ in "None is needed: its size is fixed." }
    case _ where name.hasPrefix("damaged-g-"):
      Kind(code: "damaged", title: "damaged files that a repair kept:") {
        "Remove the directory when no data in it is needed: rm -r '\($0)'"
      }
    case _ where name.hasPrefix("g-") && name.hasSuffix(".copy"):
      Kind(code: "copy", title: "unfinished compaction") { _ in
        "Wait for the compaction; the next opener removes the rest of a killed one."
      }
    case _ where name.hasPrefix("g-"):
      Kind(code: "generation", title: "former generation, which a process still uses:") { _ in
        "Resume or terminate stopped processes; the next opener removes the files."
      }
    case _ where name.hasPrefix("ns-"):
      Kind(code: "namespaceStore", title: "store of another PID namespace") { _ in
        "The next opener removes it after its processes have ended."
      }
    default: nil
    }
  }

  // MARK: JSON

  var json: CBORValue {
    let list = parts.map { part in
      CBORValue.object(
        [
          ("cause", .text(part.code)), ("name", CBORValue(part.name)),
          ("bytes", CBORValue(part.bytes)),
        ]
          + part.details.map { ($0.0, CBORValue($0.1)) } + [("action", CBORValue(part.action))])
    }
    return .object([
      ("path", .text(path)), ("allocatedBytes", CBORValue(bytes)), ("causes", .array(list)),
      ("readers", .array(readers.map { .object($0.fields) })),
      ("compactionFreesBytes", CBORValue(compactionWin)),
    ])
  }

  // MARK: Text

  /// The parts with at least a thousandth of the bytes; the sum of the others.
  var text: String {
    let all = max(bytes, 1)
    var text = Style.heading(line("BYTES", "SHARE", "CAUSE")) + "\n"
    var rest = 0
    var actions: [String] = []
    for part in parts {
      if abs(part.bytes) * 1000 < all, part.code != "other" {
        rest += part.bytes
        continue
      }
      let details = part.details.prefix(1).map {
        part.code == "keptPages" || $0.0 == "pages" ? "" : " (\(TextLayout.grouped($0.1)))"
      }
      text += row(part.bytes, part.title + (details.first ?? ""), of: all)
      guard let action = part.action, !action.hasPrefix("None"), part.bytes * 100 >= all else {
        continue
      }
      actions.append(part.title + ": " + action)
    }
    if rest > 0 { text += row(rest, "smaller causes; --json lists them", of: all) }
    text += row(bytes, path, of: all)
    if !readers.isEmpty { text += "\n" }
    for reader in readers { text += "Reader: \(reader.text).\n  \(reader.advice)\n" }
    if !actions.isEmpty { text += "\n" }
    for action in actions { text += action + "\n" }
    return text + "\nA compaction (`larder compact`) would return up to "
      + "\(ByteCount(bytes: compactionWin)) to the disk.\n"
  }

  private func row(_ bytes: Int, _ title: String, of all: Int) -> String {
    let size = (bytes < 0 ? "-" : "") + "\(ByteCount(bytes: abs(bytes)))"
    let share = TextLayout.percent(Double(bytes) / Double(all))
    return line(size, share, TextLayout.cleaned(title)) + "\n"
  }

  private func line(_ bytes: String, _ share: String, _ title: String) -> String {
    let start = TextLayout.right(bytes, width: 10) + TextLayout.right(share, width: 9) + "  "
    return start + (Style.width.map { TextLayout.shortened(title, to: max($0 - 21, 8)) } ?? title)
  }
}
#endif
