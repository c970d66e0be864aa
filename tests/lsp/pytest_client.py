"""The language server driven by the client of pytest-lsp (PyPI), which checks every message against the protocol's types.
Where that is not installed, all is skipped.  TEGULA names the command.

    pytest tests/lsp/pytest_client.py
"""
import os
import random

import pytest

pytest_lsp = pytest.importorskip("pytest_lsp")
from lsprotocol import types as lsp  # noqa: E402

TEGULA = os.path.abspath(os.environ.get("TEGULA", "build/release/tegula"))
URI = "file:///nowhere/twice.tgl"
SOURCE = """\
fn twice(x) => x * 2;
kernel k(x: in f32[N], y: out f32[N]) grid(p: cdiv(N, 64)) {
    let v = x[p * 64 +: 64];
    y[p * 64 +: 64] = twice(v);
}
example k { N = 100; x = normal(0, 1); }
"""
DOCUMENT = lsp.TextDocumentIdentifier(uri=URI)


@pytest_lsp.fixture(config=pytest_lsp.ClientServerConfig(server_command=[TEGULA, "lsp"]))
async def client(lsp_client: pytest_lsp.LanguageClient):
    await lsp_client.initialize_session(lsp.InitializeParams(capabilities=pytest_lsp.client_capabilities("visual-studio-code"), root_uri="file:///nowhere"))
    yield
    await lsp_client.shutdown_session()


async def opened(client, text):
    client.text_document_did_open(lsp.DidOpenTextDocumentParams(lsp.TextDocumentItem(uri=URI, language_id="tegula", version=1, text=text)))
    await client.wait_for_notification(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    return list(client.diagnostics[URI])


async def edited(client, version, change):
    client.text_document_did_change(lsp.DidChangeTextDocumentParams(lsp.VersionedTextDocumentIdentifier(uri=URI, version=version), [change]))
    await client.wait_for_notification(lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    return list(client.diagnostics[URI])


@pytest.mark.asyncio
async def test_report_fix_and_mend(client):
    reports = await opened(client, SOURCE.replace("twice(v)", "twise(v)"))
    assert [r.code for r in reports] == ["E0205"]
    actions = await client.text_document_code_action_async(lsp.CodeActionParams(DOCUMENT, reports[0].range, lsp.CodeActionContext(reports)))
    edit = actions[0].edit.changes[URI][0]
    assert edit.new_text == "twice" and actions[0].kind == lsp.CodeActionKind.QuickFix
    assert await edited(client, 2, lsp.TextDocumentContentChangePartial(range=edit.range, text=edit.new_text)) == []


@pytest.mark.asyncio
async def test_every_request_is_well_formed(client):
    assert await opened(client, SOURCE) == []
    here = lsp.Position(3, 24)
    hover = await client.text_document_hover_async(lsp.HoverParams(DOCUMENT, lsp.Position(3, 28)))
    assert "f32[64]" in hover.contents.value
    where = await client.text_document_definition_async(lsp.DefinitionParams(DOCUMENT, here))
    assert (where[0] if isinstance(where, list) else where).range.start.line == 0
    uses = await client.text_document_references_async(lsp.ReferenceParams(lsp.ReferenceContext(True), DOCUMENT, here))
    assert [u.range.start.line for u in uses] == [0, 3]
    renamed = await client.text_document_rename_async(lsp.RenameParams(DOCUMENT, here, "doubled"))
    assert len(renamed.changes[URI]) == 2
    found = await client.text_document_completion_async(lsp.CompletionParams(DOCUMENT, here))
    items = found if isinstance(found, list) else found.items
    assert {"twice", "v", "exp"} <= {i.label for i in items}
    signature = await client.text_document_signature_help_async(lsp.SignatureHelpParams(DOCUMENT, lsp.Position(3, 28)))
    assert signature.signatures[0].label == "twice(x)"
    assert [s.name for s in await client.text_document_document_symbol_async(lsp.DocumentSymbolParams(DOCUMENT))] == ["twice", "k", "k"]
    assert await client.text_document_folding_range_async(lsp.FoldingRangeParams(DOCUMENT))
    tokens = await client.text_document_semantic_tokens_full_async(lsp.SemanticTokensParams(DOCUMENT))
    assert tokens.data and len(tokens.data) % 5 == 0
    hints = await client.text_document_inlay_hint_async(lsp.InlayHintParams(DOCUMENT, lsp.Range(lsp.Position(0, 0), lsp.Position(9, 0))))
    assert any("sectors" in h.label for h in hints), hints
    lenses = await client.text_document_code_lens_async(lsp.CodeLensParams(DOCUMENT))
    assert {"run", "check"} <= {one.command.title for one in lenses}
    assert not await client.text_document_formatting_async(lsp.DocumentFormattingParams(DOCUMENT, lsp.FormattingOptions(4, True)))


@pytest.mark.asyncio
async def test_random_edits(client):
    rng = random.Random(5)
    text = SOURCE
    await opened(client, text)
    for version in range(2, 302):
        lines = text.split("\n")
        line = rng.randrange(len(lines))
        begin = rng.randrange(len(lines[line]) + 1)
        end = min(begin + rng.choice((0, 0, 1, 5)), len(lines[line]))
        piece = rng.choice(("", " ", "(", "}", "let ", "\n", '"', "/*", "x"))
        where = lsp.Range(lsp.Position(line, begin), lsp.Position(line, end))
        await edited(client, version, lsp.TextDocumentContentChangePartial(range=where, text=piece))
        text = "\n".join(lines[:line] + [lines[line][:begin] + piece + lines[line][end:]] + lines[line + 1:])
    assert await edited(client, 999, lsp.TextDocumentContentChangeWholeDocument(text=SOURCE)) == []
